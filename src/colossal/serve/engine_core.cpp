#include "colossal/serve/engine_core.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <map>

#include "colossal/base/log.h"
#include "colossal/serve/logprobs.h"

namespace colossal::serve {
namespace {

using Clock = Sequence::Clock;

// Logits of a step whose rows are all wanted stay below this.
constexpr int64_t kScoredBytes = int64_t{64} << 20;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

SchedulerOptions scheduler_options(const EngineOptions& options, const models::ModelFacts& facts) {
  const int64_t row_bytes = facts.vocabulary * static_cast<int64_t>(sizeof(double));
  return {.page_size = options.page_size,
          .max_num_seqs = options.max_num_seqs,
          .max_batch_tokens = options.max_batch_tokens,
          .max_scored_tokens = std::max<int64_t>(1, kScoredBytes / row_bytes),
          .prefix_cache = options.prefix_cache};
}

int64_t num_pages(const EngineOptions& options, const models::ModelFacts& facts) {
  return options.cache_bytes / page_bytes(options, facts);
}

at::Tensor row_of(const std::vector<int64_t>& numbers) {
  return at::tensor(numbers, at::kLong).unsqueeze(0);
}

// Requests share pages only where keys and values are the same: not those of different adapters,
// nor those whose rotary frequencies follow from different lengths.
std::string salt_of(const Sequence& sequence, const models::ModelFacts& facts) {
  const int64_t fixed = facts.fixed_rotary_length, length = sequence.prompt_size();
  return fmt::format("{} {} {}", sequence.adapter_number(),
                     fixed > 0 && length > fixed ? length : 0, sequence.request.cache_salt);
}

// Rows that follow others of the same adapter are multiplied with them.
void add_rows(std::vector<nn::AdaptedRows>& all, const nn::AdaptedRows& rows) {
  const bool go_on = !all.empty() && all.back().adapter == rows.adapter &&
                     all.back().begin + all.back().count == rows.begin;
  if (go_on) {
    all.back().count += rows.count;
  } else {
    all.push_back(rows);
  }
}

std::unique_ptr<Drafter> make_drafter(const EngineOptions& options, int64_t pages) {
  const Speculation& speculation = options.speculation;
  switch (speculation.kind) {
    case Speculation::Kind::none:
      return nullptr;
    case Speculation::Kind::lookup:
      return std::make_unique<LookupDrafter>();
    case Speculation::Kind::model:
      break;
  }
  return std::make_unique<ModelDrafter>(
      *speculation.model,
      nn::PagedKeyValueOptions{.layers = speculation.facts.layers,
                               .pages = pages,
                               .page_size = options.page_size,
                               .int8 = options.int8_key_values,
                               .each_token_alone = options.batch_invariant},
      options.max_batch_tokens, options.device);
}

}  // namespace

int64_t page_bytes(const EngineOptions& options, const models::ModelFacts& facts) {
  const auto of_token = [&](const models::ModelFacts& of) {
    const int64_t of_head =
        options.int8_key_values
            ? of.head_size + static_cast<int64_t>(sizeof(float))
            : of.head_size * static_cast<int64_t>(c10::elementSize(options.type));
    return 2 * of.layers * of.kv_heads * of_head;
  };
  const bool drafts = options.speculation.kind == Speculation::Kind::model;
  return options.page_size * (of_token(facts) + (drafts ? of_token(options.speculation.facts) : 0));
}

EngineCore::EngineCore(models::LanguageModel& model, const models::ModelFacts& facts,
                       const EngineOptions& options)
    : model_(model),
      facts_(facts),
      options_(options),
      store_({.layers = facts.layers,
              .pages = num_pages(options, facts),
              .page_size = options.page_size,
              .int8 = options.int8_key_values,
              .each_token_alone = options.batch_invariant}),
      drafter_(make_drafter(options, num_pages(options, facts))),
      scheduler_(scheduler_options(options, facts), num_pages(options, facts),
                 [this](int64_t from, int64_t to) {
                   store_.copy_page(from, to);
                   if (drafter_) drafter_->copy_page(from, to);
                 }) {}

void EngineCore::add(std::unique_ptr<Sequence> sequence) {
  sequence->salt = salt_of(*sequence, facts_);
  scheduler_.add(std::move(sequence));
}

void EngineCore::cancel(uint64_t id) {
  end(id, FinishReason::cancelled);
}

void EngineCore::end_all(FinishReason reason, const std::string& error) {
  for (const uint64_t id : scheduler_.ids()) end(id, reason, error);
}

// As many for each as the tokens of a step allow all of them.
void EngineCore::propose() {
  if (!drafter_) return;
  const std::vector<Sequence*> generating = scheduler_.generating();
  if (generating.empty()) return;
  const int64_t of_step = options_.max_batch_tokens / std::ssize(generating) - 1;
  std::vector<DraftRequest> requests;
  for (Sequence* const sequence : generating) {
    sequence->drafts.clear();
    const int64_t left =
        std::min(sequence->request.max_new_tokens - sequence->usage.completion_tokens,
                 options_.max_model_len - sequence->size());
    // The last token of a text needs no guess: it follows from those before it.
    const int64_t most =
        std::min({sequence->draft_length.next(options_.speculation.drafts), of_step, left - 1});
    if (most < 1) continue;
    const int64_t drafts = scheduler_.reserve_for_drafts(*sequence, most);
    if (drafts > 0) requests.push_back({sequence, drafts});
  }
  if (requests.empty()) return;
  try {
    drafter_->propose(requests);
  } catch (const std::exception& error) {
    log::warn("nothing is guessed any more: {}", error.what());
    for (const DraftRequest& request : requests) request.sequence->drafts.clear();
    drafter_.reset();
  }
}

void EngineCore::step() {
  propose();
  const Works works = scheduler_.schedule();
  if (works.empty()) return;
  std::vector<uint64_t> ids;
  for (const Scheduler::Work& work : works) ids.push_back(work.sequence->id);
  try {
    run(works);
  } catch (const std::exception& error) {
    for (const uint64_t id : ids) end(id, FinishReason::failed, error.what());
  }
}

void EngineCore::run(const Works& works) {
  const Wanted wanted = wanted_rows(works);
  const auto [logits, states] = forward(works, wanted);
  ++counts_.steps;
  for (const Scheduler::Work& work : works) {
    scheduler_.finish(work);
    counts_.batch_tokens += work.count;
    counts_.drafts += work.drafts > 0 ? 1 : 0;
    counts_.draft_tokens += work.drafts;
  }
  score_prompts(logits, wanted.logits);
  deliver_all(logits, wanted.logits, works);
  for (size_t i = 0; i < wanted.states.size(); ++i) {
    const uint64_t id = wanted.states[i].sequence->id;
    guarded(id, [&] { pool(states[static_cast<int64_t>(i)], wanted.states[i]); });
  }
}

void EngineCore::deliver_all(const at::Tensor& logits, const std::vector<WantedRow>& rows,
                             const Works& works) {
  std::map<uint64_t, int64_t> checked;  // guesses of each sequence
  for (const Scheduler::Work& work : works) checked[work.sequence->id] = work.drafts;
  std::vector<size_t> due;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].position == rows[i].sequence->size()) due.push_back(i);
  }
  while (!due.empty()) {
    const std::vector<Choice> choices = choose(logits, rows, due);
    std::vector<size_t> next;
    for (size_t i = 0; i < due.size(); ++i) {
      Sequence& sequence = *rows[due[i]].sequence;
      const uint64_t id = sequence.id;
      deliver(sequence, choices[i]);
      if (!scheduler_.has(id)) continue;
      const bool is_right =
          !sequence.drafts.empty() && sequence.drafts.front() == choices[i].token.token;
      if (!is_right) {
        sequence.draft_length.learn(checked[id], checked[id] - std::ssize(sequence.drafts));
        sequence.drafts.clear();
        continue;
      }
      sequence.drafts.erase(sequence.drafts.begin());
      ++counts_.accepted_tokens;
      scheduler_.accept_draft(sequence);
      next.push_back(due[i] + 1);
    }
    due = std::move(next);
  }
}

auto EngineCore::wanted_rows(const Works& works) -> Wanted {
  Wanted wanted;
  int64_t row = 0;
  for (const auto& [sequence, count, drafts] : works) {
    const Pooling pooling = sequence->request.pooling;
    for (int64_t i = 0; i < count; ++i, ++row) {
      const int64_t position = sequence->computed + i + 1;
      const bool is_last = position >= sequence->size();  // or follows a guess
      if (pooling == Pooling::mean || (pooling == Pooling::last && is_last)) {
        wanted.states.push_back({sequence, row, position});
      }
      const bool scored = sequence->wants_prompt_logprobs() && position < sequence->prompt_size();
      if (scored || (is_last && pooling == Pooling::none)) {
        wanted.logits.push_back({sequence, row, position});
      }
    }
  }
  return wanted;
}

auto EngineCore::forward(const Works& works, const Wanted& wanted) -> Results {
  std::vector<int64_t> tokens, rows;
  for (const auto& [sequence, count, drafts] : works) {
    const auto begin = sequence->tokens.begin() + sequence->computed;
    tokens.insert(tokens.end(), begin, begin + count - drafts);
    tokens.insert(tokens.end(), sequence->drafts.begin(), sequence->drafts.end());
  }
  for (const WantedRow& row : wanted.logits) rows.push_back(row.row);
  // A pass without its end would leave weights that come for their uses out of their order.
  if (rows.empty()) rows.push_back(0);
  const auto num_logits = std::ssize(rows);
  for (const WantedRow& row : wanted.states) rows.push_back(row.row);
  nn::StepContext context = begin_step(works);
  const at::Tensor hidden = model_.run_blocks(
      {0, model_.num_blocks()}, model_.embed(row_of(tokens).to(options_.device), context), context);
  context.sequence = std::ssize(rows);
  const at::Tensor states = model_.final_states(
      hidden.index_select(1, at::tensor(rows, at::kLong).to(hidden.device())), context);
  context.sequence = num_logits;
  Results results{
      .logits = model_.logits_of_states(states.narrow(1, 0, num_logits), context).squeeze(0).cpu()};
  if (!wanted.states.empty()) {
    results.states = states.squeeze(0)
                         .narrow(0, num_logits, std::ssize(wanted.states))
                         .to(at::kCPU, at::kDouble);
  }
  return results;
}

nn::StepContext EngineCore::begin_step(const Works& works) {
  std::vector<int64_t> positions, lengths;
  std::vector<nn::PagedChunk> chunks;
  std::vector<nn::AdaptedRows> adapted;
  for (const auto& [sequence, count, drafts] : works) {
    if (const nn::AdapterWeights* adapter = sequence->request.adapter.get()) {
      add_rows(adapted, {adapter, std::ssize(positions), count});
    }
    chunks.push_back({.positions = {sequence->computed, sequence->computed + count},
                      .pages = sequence->pages,
                      .alone = drafts > 0});
    for (int64_t i = 0; i < count; ++i) {
      positions.push_back(sequence->computed + i);
      // However the prompt is cut, its tokens go by its whole length; later ones by theirs.
      lengths.push_back(std::max(positions.back() + 1, sequence->prompt_size()));
    }
  }
  store_.begin_step(chunks);
  nn::StepContext context = nn::make_step_context(1, std::ssize(positions), options_.device);
  context.positions = row_of(positions).to(options_.device);
  context.lengths = row_of(lengths);
  context.key_values = &store_;
  context.adapted_rows = std::move(adapted);
  return context;
}

void EngineCore::score_prompts(const at::Tensor& logits, const std::vector<WantedRow>& rows) const {
  at::parallel_for(0, std::ssize(rows), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      auto& [sequence, row, position] = rows[i];
      if (position >= sequence->prompt_size() || !sequence->wants_prompt_logprobs()) continue;
      sequence->prompt_logprobs[position] =
          with_logprobs(logits[i].to(at::kDouble), sequence->request.prompt[position],
                        sequence->request.prompt_logprobs);
    }
  });
}

// Those that a constraint restricts come after the others, on this thread.
auto EngineCore::choose(const at::Tensor& logits, const std::vector<WantedRow>& rows,
                        const std::vector<size_t>& chosen) const -> std::vector<Choice> {
  std::vector<Choice> choices(chosen.size());
  const auto choose_row = [&](int64_t i) {
    const Sequence& sequence = *rows[chosen[i]].sequence;
    if (sequence.request.max_new_tokens == 0) return;
    try {
      choices[i] = choose(logits[static_cast<int64_t>(chosen[i])], sequence);
    } catch (const std::exception& error) {
      choices[i].error = error.what();
    }
  };
  const auto is_constrained = [&](int64_t i) {
    return rows[chosen[i]].sequence->request.constraint != nullptr;
  };
  at::parallel_for(0, std::ssize(chosen), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (!is_constrained(i)) choose_row(i);
    }
  });
  for (int64_t i = 0; i < std::ssize(chosen); ++i) {
    if (is_constrained(i)) choose_row(i);
  }
  return choices;
}

auto EngineCore::choose(const at::Tensor& logits, const Sequence& sequence) -> Choice {
  const Request& request = sequence.request;
  const at::Tensor raw = logits.to(at::kDouble);
  at::Tensor processed = request.logprobs >= 0 ? raw.clone() : raw;
  if (request.constraint) request.constraint->apply(processed);
  process_logits(processed, request.sampling, {request.prompt, sequence.generated()},
                 request.end_tokens);
  const int32_t token = sample(processed, request.sampling, sequence.size());
  if (request.logprobs < 0) return {{.token = token}};
  const at::Tensor scored =
      request.logprobs_temperature == 1 ? raw : raw / request.logprobs_temperature;
  return {with_logprobs(scored, token, request.logprobs)};
}

void EngineCore::deliver(Sequence& sequence, const Choice& choice) {
  guarded(sequence.id, [&] {
    if (!sequence.prompt_done) finish_prompt(sequence);
    if (sequence.request.max_new_tokens == 0) return end(sequence.id, FinishReason::length);
    if (!choice.error.empty()) return end(sequence.id, FinishReason::failed, choice.error);
    accept(sequence, choice.token);
  });
}

void EngineCore::finish_prompt(Sequence& sequence) {
  sequence.prompt_done = true;
  sequence.first_token = Clock::now();
  counts_.prompt_tokens += sequence.prompt_size();
  if (sequence.request.prompt_logprobs < 0) return;
  if (sequence.request.on_prompt) sequence.request.on_prompt(sequence.prompt_logprobs);
  sequence.prompt_logprobs.clear();
}

void EngineCore::accept(Sequence& sequence, const GeneratedToken& token) {
  const Request& request = sequence.request;
  if (std::ranges::find(request.end_tokens, token.token) != request.end_tokens.end()) {
    return end(sequence.id, FinishReason::stop);
  }
  if (request.constraint) request.constraint->accept(token.token);
  sequence.tokens.push_back(token.token);
  ++sequence.usage.completion_tokens;
  ++counts_.generated_tokens;
  const bool goes_on = !request.on_token || request.on_token(token);
  if (!goes_on || (request.constraint && request.constraint->finished())) {
    return end(sequence.id, FinishReason::stop);
  }
  if (sequence.usage.completion_tokens >= request.max_new_tokens ||
      sequence.size() >= options_.max_model_len) {
    end(sequence.id, FinishReason::length);
  }
}

// Adds what has not been added: tokens are computed again after their pages were given back.
void EngineCore::pool(const at::Tensor& state, const WantedRow& row) {
  Sequence& sequence = *row.sequence;
  if (row.position > sequence.num_pooled) {
    const double* const values = state.const_data_ptr<double>();
    sequence.pooled.resize(state.numel());
    for (size_t i = 0; i < sequence.pooled.size(); ++i) sequence.pooled[i] += values[i];
    sequence.num_pooled = row.position;
  }
  if (row.position < sequence.size()) return;
  finish_prompt(sequence);
  const auto count =
      static_cast<double>(sequence.request.pooling == Pooling::mean ? sequence.num_pooled : 1);
  for (double& value : sequence.pooled) value /= count;
  if (sequence.request.on_embedding) sequence.request.on_embedding(sequence.pooled);
  end(sequence.id, FinishReason::stop);
}

template <typename Run>
void EngineCore::guarded(uint64_t id, const Run& run) {
  try {
    run();
  } catch (const std::exception& error) {
    end(id, FinishReason::failed, error.what());
  }
}

void EngineCore::end(uint64_t id, FinishReason reason, const std::string& error) {
  const std::unique_ptr<Sequence> sequence = scheduler_.remove(id);
  if (!sequence) return;
  const Clock::time_point now = Clock::now();
  const Clock::time_point started = sequence->has_started ? sequence->started : now;
  const Clock::time_point first = sequence->prompt_done ? sequence->first_token : now;
  Usage& usage = sequence->usage;
  usage.prompt_tokens = sequence->prompt_size();
  usage.queue_seconds = seconds_between(sequence->submitted, started);
  usage.prefill_seconds = seconds_between(started, first);
  usage.decode_seconds = seconds_between(first, now);
  ++counts_.finished[static_cast<size_t>(reason)];
  try {
    if (sequence->request.on_finish) sequence->request.on_finish(reason, usage, error);
  } catch (const std::exception& thrown) {
    log::warn("a request's on_finish: {}", thrown.what());
  }
}

EngineStatistics EngineCore::statistics() const {
  EngineStatistics now = counts_;
  now.running = scheduler_.running();
  now.waiting = scheduler_.waiting();
  now.pages = scheduler_.pages().size();
  now.pages_in_use = scheduler_.pages().in_use();
  now.page_size = options_.page_size;
  now.prefix_queries = scheduler_.prefix_queries();
  now.prefix_hits = scheduler_.prefix_hits();
  now.preemptions = scheduler_.preemptions();
  return now;
}

}  // namespace colossal::serve
