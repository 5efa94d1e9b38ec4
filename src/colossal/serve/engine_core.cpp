#include "colossal/serve/engine_core.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <memory>
#include <thread>

#include "colossal/base/current_exception.h"
#include "colossal/base/log.h"
#include "colossal/layout/heads.h"
#include "colossal/nn/attention_heads.h"
#include "colossal/ops/parallel_for.h"
#include "colossal/serve/logprobs.h"

namespace colossal::serve {
namespace {

using Clock = Sequence::Clock;

// Limit on the bytes of a step's logits (fp64) for one prompt whose log-probabilities are all
// requested.
constexpr int64_t kScoredBytes = int64_t{64} << 20;

// Most steps without a drafter after it has failed several times.
constexpr int64_t kLongestDrafterPause = 4096;
// How long a step without work waits for constraints.
constexpr std::chrono::microseconds kConstraintPoll(200);

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

SchedulerOptions scheduler_options(const EngineOptions& options, const models::ModelFacts& facts,
                                   int64_t max_steps_in_flight) {
  const int64_t row_bytes = facts.vocabulary * static_cast<int64_t>(sizeof(double));
  return {.page_size = options.page_size,
          .max_num_seqs = options.max_num_seqs,
          .max_batch_tokens = options.max_batch_tokens,
          .max_scored_tokens = std::max<int64_t>(1, kScoredBytes / row_bytes),
          // The keys and values of an encoder-decoder's target depend on its source.
          .prefix_cache = options.prefix_cache && facts.is_decoder(),
          .whole_prompts = !facts.causal,
          .max_steps_in_flight = max_steps_in_flight};
}

Strategy strategy_of(const ParallelContext* ranks) {
  return ranks ? ranks->strategy() : Strategy{};
}

nn::PagedKeyValueOptions page_options(const EngineOptions& options, const models::ModelFacts& facts,
                                      const ParallelContext* ranks) {
  return {.layers = facts.layers,
          .pages = options.cache_bytes / page_bytes(options, facts, strategy_of(ranks)),
          .page_size = options.page_size,
          .int8 = options.int8_key_values,
          .each_token_alone = options.batch_invariant};
}

// Returns the number of layers with a KV cache on the rank that has the most.
int64_t most_layers(const models::ModelFacts& facts, const Strategy& strategy) {
  std::vector<int64_t> layers(strategy.pp);
  for (int stage = 0; stage < strategy.num_stages(); ++stage) {
    const Range blocks = strategy.blocks_of_stage(stage, facts.layers);
    layers[strategy.stage_rank(stage)] +=
        intersect(blocks, Range{facts.encoder_layers, facts.layers}).size();
  }
  return std::ranges::max(layers);
}

int64_t most_kept_heads(const models::ModelFacts& facts, const Strategy& strategy) {
  if (facts.key_value_cache_heads != facts.kv_heads)
    return facts.key_value_cache_heads;  // latent attention: each rank caches all latents
  int64_t most = 0;
  for (int rank = 0; rank < strategy.head_ranks(); ++rank) {
    const nn::AttentionHeads heads(
        {.heads = facts.heads, .kv_heads = facts.kv_heads, .head_size = facts.head_size},
        local_heads_of(facts.heads, facts.kv_heads, strategy.head_ranks(), rank));
    most = std::max(most, heads.num_key_value_heads_used());
  }
  return most;
}

// Returns Sequence::salt. Keys and values also depend on the adapter and, for prompts longer than
// fixed_rotary_length, on the prompt's length, which sets the rotary frequencies.
std::string salt_of(const Sequence& sequence, const models::ModelFacts& facts) {
  const int64_t fixed = facts.fixed_rotary_length, length = sequence.prompt_size();
  return fmt::format("{} {} {}", sequence.adapter_number(),
                     fixed > 0 && length > fixed ? length : 0, sequence.request.cache_salt);
}

// Whether a drafter may draft tokens for a request: not for beam search or embeddings.
bool may_guess(const Request& request) {
  return request.beams.width <= 1 && request.pooling == Pooling::none;
}

// Appends `rows`. Merges them with the last element if they follow it and use the same adapter, so
// that both are multiplied at once.
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
    case Speculation::Kind::head:
      break;
  }
  const nn::PagedKeyValueOptions page_options{.layers = speculation.facts.layers,
                                              .pages = pages,
                                              .page_size = options.page_size,
                                              .int8 = options.int8_key_values,
                                              .each_token_alone = options.batch_invariant};
  if (speculation.kind == Speculation::Kind::head) {
    return std::make_unique<HeadDrafter>(*speculation.model, page_options, options.max_batch_tokens,
                                         options.device, speculation.type);
  }
  return std::make_unique<ModelDrafter>(*speculation.model, page_options, options.max_batch_tokens,
                                        options.device);
}

std::vector<nn::AdaptedRows> adapted_rows(const std::vector<Scheduler::Work>& works) {
  std::vector<nn::AdaptedRows> adapted;
  int64_t row = 0;
  for (const auto& [sequence, begin, count, drafts] : works) {
    if (const nn::AdapterWeights* adapter = sequence->request.adapter.get()) {
      add_rows(adapted, {adapter, row, count});
    }
    row += count;
  }
  return adapted;
}

}  // namespace

int64_t page_bytes(const EngineOptions& options, const models::ModelFacts& facts,
                   const Strategy& strategy) {
  const auto of_token = [&](const models::ModelFacts& of, const Strategy& over) {
    const int64_t of_head =
        of.key_value_cache_features / of.key_value_cache_heads;  // elements of a key and a value
    const int64_t bytes = options.int8_key_values
                              ? of_head + 2 * static_cast<int64_t>(sizeof(float))
                              : of_head * static_cast<int64_t>(c10::elementSize(options.type));
    return most_layers(of, over) * most_kept_heads(of, over) * bytes;
  };
  // Only the first rank has the draft model, which is not partitioned.
  const bool drafts = options.speculation.model != nullptr;
  return options.page_size *
         (of_token(facts, strategy) + (drafts ? of_token(options.speculation.facts, {}) : 0));
}

int64_t longest_text(const Request& request, const EngineOptions& options,
                     const models::ModelFacts& facts) {
  const int64_t before = request.adapter ? request.adapter->num_virtual_tokens : 0;
  return std::min(options.max_model_len, facts.positions - before);
}

EngineCore::EngineCore(models::Model& model, const models::ModelFacts& facts,
                       const EngineOptions& options, const ParallelContext* ranks,
                       const AroundStage& around_stage, const EngineStatistics& before)
    : facts_(facts),
      options_(options),
      ranks_(ranks),
      pass_(model, facts, page_options(options, facts, ranks), options.device, ranks, around_stage),
      drafter_(make_drafter(options, page_options(options, facts, ranks).pages)),
      scheduler_(scheduler_options(options, facts, pass_.max_passes_in_flight()),
                 page_options(options, facts, ranks).pages,
                 [this](int64_t from, int64_t to) {
                   copied_pages_.emplace_back(from, to);
                   if (drafter_) drafter_->copy_page(from, to);
                 }),
      counts_(before) {
  const bool beats = ranks && options.heartbeat.timeout.count() > 0;
  tell(StepMessage::Kind::begin,
       {scheduler_.pages().size(), options.page_size, options.int8_key_values ? 1 : 0,
        options.batch_invariant ? 1 : 0, beats ? options.heartbeat.patience().count() : 0});
  if (!beats) return;
  // Barrier: ranks that are still reading their weights cannot answer heartbeats yet.
  count_failures(false, *ranks);
  heartbeat_.emplace(*ranks, options.heartbeat);
}

template <typename Run>
auto EngineCore::in_step(const Run& run) {
  try {
    return run();
  } catch (...) {
    if (!ranks_ || lost_) throw;
    const std::string error = message_of_current_exception();
    lost_ = true;
    ranks_->world().abort(error);
    // Its thread uses the ranks, which the caller may destroy after the throw.
    heartbeat_.reset();
    throw CommError(error);
  }
}

EngineCore::~EngineCore() {
  if (lost_) return;
  try {
    finish_all();
    tell(StepMessage::Kind::end);
  } catch (...) {
    log::warn("while the engine ended: {}", message_of_current_exception());
  }
}

void EngineCore::tell(StepMessage::Kind kind, std::vector<int64_t> numbers) {
  if (!ranks_) return;
  in_step([&] { serve::tell({kind, std::move(numbers)}, *ranks_); });
}

void EngineCore::add(std::unique_ptr<Sequence> sequence) {
  Request& request = sequence->request;
  if (request.max_new_tokens > 0) {
    const int64_t room = longest_text(request, options_, facts_) - sequence->prompt_size();
    request.max_new_tokens = std::min(request.max_new_tokens, std::max<int64_t>(1, room));
  }
  sequence->salt = salt_of(*sequence, facts_);
  // A draft head stores its own keys and values for each page, but not for requests without drafts.
  // Requests with drafts must not share pages of these.
  if (drafts_by_states() && !may_guess(request)) sequence->salt += " unread";
  if (request.beams.width > 1) {
    sequence->group = std::make_shared<BeamGroup>(
        BeamGroup{.search = BeamSearch(request.beams, request.end_tokens, request.max_new_tokens),
                  .beams = {sequence.get()}});
  }
  const uint64_t id = sequence->id;
  const std::shared_ptr<const nn::AdapterWeights> adapter = request.adapter;
  scheduler_.add(std::move(sequence));
  // After a loss, no messages are sent.
  if (adapter && ranks_ && !lost_) guarded(id, [&] { share(adapter); });
}

void EngineCore::share(const std::shared_ptr<const nn::AdapterWeights>& adapter) {
  if (shared_adapters_.contains(adapter->number)) return;
  // The other ranks answer only after they have run the passes that they were told to run before.
  finish_all();
  std::vector<int64_t> message{static_cast<int64_t>(adapter->number)};
  for (const char byte : adapter->folder) message.push_back(byte);
  tell(StepMessage::Kind::adapter, std::move(message));
  const int64_t failures = in_step([&] { return count_failures(/*failed=*/false, *ranks_); });
  if (failures > 0) {
    throw Error(fmt::format("{} of the other ranks cannot load the adapter {}; see their logs",
                            failures, adapter->folder));
  }
  shared_adapters_[adapter->number] = adapter;
}

void EngineCore::drop_unused_adapters() {
  std::erase_if(shared_adapters_, [&](const auto& shared) {
    if (!shared.second.expired()) return false;
    tell(StepMessage::Kind::drop_adapter, {static_cast<int64_t>(shared.first)});
    return true;
  });
}

void EngineCore::cancel(uint64_t id) {
  end(id, FinishReason::cancelled);
}

void EngineCore::end_all(FinishReason reason, const std::string& error) {
  for (const uint64_t id : scheduler_.ids()) end(id, reason, error);
}

// Each sequence gets at most an equal share of the tokens of a step.
void EngineCore::propose() {
  renew_drafter();
  if (!drafter_) return;
  const std::vector<Sequence*> generating = scheduler_.generating();
  if (generating.empty()) return;
  const int64_t of_step = options_.max_batch_tokens / std::ssize(generating) - 1;
  std::vector<DraftRequest> requests;
  for (Sequence* const sequence : generating) {
    sequence->drafts.clear();
    if (sequence->group || sequence->rejects_drafts) continue;
    // A head that was made after the sequence had begun has no state to go on from.
    if (drafts_by_states() && !sequence->expected_state.defined()) continue;
    const int64_t left = sequence->request.max_new_tokens - sequence->usage.completion_tokens;
    // A step generates one token more than it accepts drafts, so the text's last token needs no
    // draft.
    const int64_t most =
        std::min({sequence->draft_length.next(options_.speculation.drafts), of_step, left - 1});
    if (most < 1) continue;
    const int64_t drafts = scheduler_.reserve_for_drafts(*sequence, most);
    if (drafts > 0) requests.push_back({sequence, drafts});
  }
  if (requests.empty()) return;
  guard_drafter([&] {
    for (const auto& [sequence, error] : drafter_->propose(requests)) {
      sequence->rejects_drafts = true;
      ++counts_.draft_failures;
      log::warn("no more guesses for one request: {}", error);
    }
  });
}

// Starts exactly one pass per call, even an empty one: ranks whose passes communicate with each
// other, as in rollouts, must run equally many.
void EngineCore::step() {
  in_step([&] { run_step(); });
}

void EngineCore::run_step() {
  ++num_steps_;
  drop_unused_adapters();
  propose();
  const Works works = scheduler_.schedule();
  if (works.empty()) {
    tell(StepMessage::Kind::nothing);
    in_step([&] { pass_.start({}); });
    if (!passes_in_flight_.empty()) {
      finish();
    } else if (scheduler_.awaits_constraint()) {
      std::this_thread::sleep_for(kConstraintPoll);
    }
  } else {
    start(works);
  }
  while (
      !passes_in_flight_.empty() &&
      (std::ssize(passes_in_flight_) == pass_.max_passes_in_flight() || !scheduler_.has_more())) {
    finish();
  }
}

template <typename Run>
void EngineCore::guard_works(const Works& works, const Run& run) {
  std::vector<uint64_t> ids;
  for (const Scheduler::Work& work : works) ids.push_back(work.sequence->id);
  try {
    run();
  } catch (...) {
    if (lost_) throw;
    const std::string error = message_of_current_exception();
    for (const uint64_t id : ids) end(id, FinishReason::failed, error);
  }
}

void EngineCore::start(const Works& works) {
  bool started = false;
  guard_works(works, [&] {
    PassInFlight pass{works, wanted_rows(works), drafts_by_states(), {}};
    const StepPlan planned = plan(works, pass.wanted);
    pass.choices = planned.choices;
    tell(StepMessage::Kind::step, to_numbers(planned));
    in_step([&] { pass_.start(planned, adapted_rows(works)); });
    passes_in_flight_.push_back(std::move(pass));
    started = true;
  });
  if (!started) leave_step(works);
}

void EngineCore::finish() {
  const PassInFlight pass = std::move(passes_in_flight_.front());
  passes_in_flight_.pop_front();
  guard_works(pass.works, [&] { take_results(pass); });
  leave_step(pass.works);
}

void EngineCore::leave_step(const Works& works) {
  for (const Scheduler::Work& work : works) --work.sequence->steps;
  std::erase_if(retired_, [](const auto& sequence) { return sequence->steps == 0; });
}

void EngineCore::finish_all() {
  while (!passes_in_flight_.empty()) finish();
}

void EngineCore::take_results(const PassInFlight& pass) {
  const PassResults results = in_step([&] { return pass_.collect(); });
  const RowResults of_rows = by_row(results, pass.wanted.logits.size(), pass.choices);
  const at::Tensor& states = results.states;
  ++counts_.steps;
  for (const Scheduler::Work& work : pass.works) {
    if (!work.sequence->has_ended) scheduler_.finish(work);
    counts_.batch_tokens += work.count;
    counts_.drafts += work.drafts > 0 ? 1 : 0;
    counts_.draft_tokens += work.drafts;
  }
  if (pass.has_all_states) store_states(states, pass.works);
  std::vector<uint64_t> ids;
  for (const Scheduler::Work& work : pass.works) ids.push_back(work.sequence->id);
  score_prompts(of_rows, pass.wanted.logits);
  deliver_all(of_rows, pass.wanted.logits, pass.works);
  for (size_t i = 0; i < pass.wanted.states.size(); ++i) {
    const WantedRow& wanted = pass.wanted.states[i];
    if (wanted.sequence->has_ended) continue;
    const int64_t row = pass.has_all_states ? wanted.row : static_cast<int64_t>(i);
    guarded(wanted.sequence->id, [&] { pool(states[row], wanted); });
  }
  if (!drafts_by_states()) return;
  std::vector<Sequence*> going_on;
  for (size_t i = 0; i < pass.works.size(); ++i) {
    if (scheduler_.has(ids[i])) going_on.push_back(pass.works[i].sequence);
  }
  guard_drafter([&] { drafter_->read(going_on); });
}

bool EngineCore::drafts_by_states() const {
  return drafter_ && drafter_->wants_states();
}

void EngineCore::store_states(const at::Tensor& states, const Works& works) {
  int64_t row = 0;
  for (const auto& [sequence, begin, count, drafts] : works) {
    if (may_guess(sequence->request)) {
      sequence->states = states.narrow(0, row, count);
      sequence->states_begin = begin;
    }
    row += count;
  }
}

// A drafter affects speed only, so that requests continue without it. What it has computed may be
// incomplete, so that a new one is made later.
template <typename Run>
void EngineCore::guard_drafter(const Run& run) {
  try {
    run();
  } catch (...) {
    const std::string error = message_of_current_exception();
    for (Sequence* const sequence : scheduler_.generating()) {
      sequence->drafts.clear();
      sequence->drafted = 0;
      sequence->states = sequence->expected_state = at::Tensor();
    }
    drafter_.reset();
    ++counts_.draft_failures;
    next_drafter_step_ = num_steps_ + drafter_pause_;
    log::warn("speculative decoding failed; it is tried again after {} steps: {}", drafter_pause_,
              error);
    drafter_pause_ = std::min(2 * drafter_pause_, kLongestDrafterPause);
  }
}

void EngineCore::renew_drafter() {
  const bool speculates = options_.speculation.kind != Speculation::Kind::none;
  if (drafter_ || !speculates || num_steps_ < next_drafter_step_) return;
  guard_drafter([&] { drafter_ = make_drafter(options_, scheduler_.pages().size()); });
}

void EngineCore::deliver_all(const RowResults& results, const std::vector<WantedRow>& rows,
                             const Works& works) {
  std::map<uint64_t, int64_t> checked;  // number of draft tokens of each sequence
  for (const Scheduler::Work& work : works) checked[work.sequence->id] = work.drafts;
  std::vector<size_t> due, of_beams;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Sequence& sequence = *rows[i].sequence;
    if (sequence.has_ended) continue;
    if (rows[i].position == sequence.size()) (sequence.group ? of_beams : due).push_back(i);
  }
  continue_beams(results, rows, of_beams);
  while (!due.empty()) {
    const std::vector<Choice> choices = choose(results, rows, due);
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
  for (const auto& [sequence, begin, count, drafts] : works) {
    const Pooling pooling = sequence->request.pooling;
    for (int64_t i = 0; i < count; ++i, ++row) {
      const int64_t position = begin + i + 1;
      // The last token, or a draft token.
      const bool is_last = position >= sequence->size();
      if (pooling == Pooling::mean || (pooling == Pooling::last && is_last) ||
          (pooling == Pooling::first && position == 1)) {
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

StepPlan EngineCore::plan(const Works& works, const Wanted& wanted) {
  StepPlan planned{.copied_pages = std::exchange(copied_pages_, {})};
  for (const auto& [sequence, begin, count, drafts] : works) {
    const auto tokens = std::span(sequence->tokens).subspan(begin, count - drafts);
    planned.tokens.insert(planned.tokens.end(), tokens.begin(), tokens.end());
    planned.tokens.insert(planned.tokens.end(), sequence->drafts.begin(), sequence->drafts.end());
    if (const std::vector<int32_t>& types = sequence->request.token_types; !types.empty()) {
      planned.types.resize(planned.tokens.size() - types.size());
      planned.types.insert(planned.types.end(), types.begin(), types.end());
    }
    planned.chunks.push_back({.tokens = {.positions = {begin, begin + count},
                                         .pages = sequence->pages,
                                         .alone = drafts > 0},
                              .prompt = sequence->prompt_size(),
                              .source = static_cast<int64_t>(sequence->id)});
    const std::vector<int32_t>& source = sequence->source;
    if (!source.empty() && read_sources_.insert(sequence->id).second) {
      planned.sources.push_back(
          {static_cast<int64_t>(sequence->id), {source.begin(), source.end()}});
    }
  }
  planned.dropped_sources = std::exchange(dropped_sources_, {});
  for (const auto& [adapter, begin, count] : adapted_rows(works)) {
    planned.adapted.push_back({static_cast<int64_t>(adapter->number), begin, count});
  }
  if (!planned.types.empty()) planned.types.resize(planned.tokens.size());
  for (const WantedRow& row : wanted.logits) planned.wanted_logits.push_back(row.row);
  planned.choices = choices_on_device(wanted.logits);
  if (drafts_by_states()) {
    for (int64_t row = 0; row < std::ssize(planned.tokens); ++row) {
      planned.wanted_states.push_back(row);
    }
  } else {
    for (const WantedRow& row : wanted.states) planned.wanted_states.push_back(row.row);
  }
  // Always computes the head. A pass without it would use offloaded weights in an order other than
  // the recorded one.
  if (planned.wanted_logits.empty()) planned.wanted_logits.push_back(0);
  return planned;
}

std::vector<TokenChoice> EngineCore::choices_on_device(const std::vector<WantedRow>& rows) const {
  std::vector<TokenChoice> choices;
  if (!options_.device.is_cuda()) return choices;  // the host has the logits
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& [sequence, row, position] = rows[i];
    const Request& request = sequence->request;
    const bool needs_host = position < sequence->size() || sequence->group || request.constraint ||
                            request.logprobs >= 0;
    if (needs_host) continue;
    const auto choice = choice_on_device(request.sampling, static_cast<int64_t>(i), position);
    if (choice) choices.push_back(*choice);
  }
  return choices;
}

auto EngineCore::by_row(const PassResults& results, size_t rows,
                        const std::vector<TokenChoice>& choices) -> RowResults {
  RowResults of_rows(rows);
  std::vector<bool> is_chosen(rows);
  for (size_t i = 0; i < choices.size(); ++i) {
    const auto row = static_cast<size_t>(choices[i].row);
    is_chosen[row] = true;
    of_rows[row].token = results.tokens.const_data_ptr<int64_t>()[i];
  }
  for (int64_t i = 0, next = 0; i < std::ssize(of_rows); ++i) {
    if (!is_chosen[i]) of_rows[i].logits = results.logits[next++];
  }
  return of_rows;
}

void EngineCore::score_prompts(const RowResults& results, const std::vector<WantedRow>& rows) {
  ops::parallel_for(0, std::ssize(rows), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      auto& [sequence, row, position] = rows[i];
      if (position >= sequence->prompt_size() || !sequence->wants_prompt_logprobs()) continue;
      sequence->prompt_logprobs[position] =
          with_logprobs(results[i].logits.to(at::kDouble), sequence->request.prompt[position],
                        sequence->request.prompt_logprobs);
    }
  });
}

// Samples rows with constraints last, on this thread: constraints are called on the engine's thread
// only.
auto EngineCore::choose(const RowResults& results, const std::vector<WantedRow>& rows,
                        const std::vector<size_t>& chosen) -> std::vector<Choice> {
  std::vector<Choice> choices(chosen.size());
  const auto choose_row = [&](int64_t i) {
    const Sequence& sequence = *rows[chosen[i]].sequence;
    if (sequence.request.max_new_tokens == 0) return;
    try {
      choices[i] = choose(results[chosen[i]], sequence);
    } catch (...) {
      choices[i].error = message_of_current_exception();
    }
  };
  const auto is_constrained = [&](int64_t i) {
    return rows[chosen[i]].sequence->request.constraint != nullptr;
  };
  ops::parallel_for(0, std::ssize(chosen), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (!is_constrained(i)) choose_row(i);
    }
  });
  for (int64_t i = 0; i < std::ssize(chosen); ++i) {
    if (is_constrained(i)) choose_row(i);
  }
  return choices;
}

auto EngineCore::choose(const RowResult& result, const Sequence& sequence) -> Choice {
  if (!result.logits.defined()) {
    if (result.token < 0) throw Error(kNoToken);
    return {{.token = static_cast<int32_t>(result.token)}};
  }
  const Request& request = sequence.request;
  const at::Tensor raw = result.logits.to(at::kDouble);
  at::Tensor processed = request.logprobs >= 0 ? raw.clone() : raw;
  if (request.constraint) request.constraint->apply(processed);
  process_logits(processed, request.sampling, sequence.text_before(sequence.generated()));
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
  counts_.prompt_tokens += sequence.num_submitted();
  if (sequence.request.prompt_logprobs < 0) return;
  if (sequence.request.on_prompt) sequence.request.on_prompt(sequence.prompt_logprobs);
  sequence.prompt_logprobs.clear();
}

void EngineCore::accept(Sequence& sequence, const GeneratedToken& token) {
  const Request& request = sequence.request;
  if (std::ranges::find(request.end_tokens, token.token) != request.end_tokens.end()) {
    if (request.on_end_token) request.on_end_token(token);
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
  if (sequence.usage.completion_tokens >= request.max_new_tokens) {
    end(sequence.id, FinishReason::length);
  }
}

// Does not add tokens twice: after a preemption, tokens are computed again.
void EngineCore::pool(const at::Tensor& state, const WantedRow& row) {
  Sequence& sequence = *row.sequence;
  if (row.position > sequence.num_pooled) {
    const double* const values = state.const_data_ptr<double>();
    sequence.pooled.resize(state.numel());
    for (size_t i = 0; i < sequence.pooled.size(); ++i) sequence.pooled[i] += values[i];
    sequence.num_pooled = row.position;
  }
  if (row.position < sequence.size() && sequence.request.pooling != Pooling::first) return;
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
  } catch (...) {
    end(id, FinishReason::failed, message_of_current_exception());
  }
}

void EngineCore::end(uint64_t id, FinishReason reason, const std::string& error) {
  std::unique_ptr<Sequence> sequence = scheduler_.remove(id);
  if (!sequence) return;
  while (std::unique_ptr<Sequence> beam = scheduler_.remove(id)) retire(std::move(beam));
  if (read_sources_.erase(id) > 0) dropped_sources_.push_back(static_cast<int64_t>(id));
  const Clock::time_point now = Clock::now();
  const Clock::time_point started = sequence->has_started ? sequence->started : now;
  const Clock::time_point first = sequence->prompt_done ? sequence->first_token : now;
  Usage& usage = sequence->usage;
  usage.prompt_tokens = sequence->num_submitted();
  usage.queue_seconds = seconds_between(sequence->submitted, started);
  usage.prefill_seconds = seconds_between(started, first);
  usage.decode_seconds = seconds_between(first, now);
  ++counts_.finished[static_cast<size_t>(reason)];
  try {
    if (sequence->request.on_finish) sequence->request.on_finish(reason, usage, error);
  } catch (...) {
    log::warn("a request's on_finish: {}", message_of_current_exception());
  }
  retire(std::move(sequence));
}

void EngineCore::retire(std::unique_ptr<Sequence> sequence) {
  sequence->has_ended = true;
  if (sequence->steps > 0) retired_.push_back(std::move(sequence));
}

EngineStatistics EngineCore::statistics() const {
  EngineStatistics now = counts_;
  now.running = scheduler_.running();
  now.waiting = scheduler_.waiting();
  now.pages = scheduler_.pages().size();
  now.pages_in_use = scheduler_.pages().in_use();
  now.page_size = options_.page_size;
  now.prefix_queries += scheduler_.prefix_queries();
  now.prefix_hits += scheduler_.prefix_hits();
  now.preemptions += scheduler_.preemptions();
  return now;
}

}  // namespace colossal::serve
