#include "colossal/serve/forward_pass.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/comm/group.h"
#include "colossal/ops/product/few_rows.h"
#include "colossal/ops/upload.h"
#include "colossal/serve/heartbeat.h"
#include "colossal/serve/step_messages.h"

namespace colossal::serve {
namespace {

// Whether each token of a step becomes a sequence of its own ([tokens, 1] instead of [1, tokens]).
// Tensor modes other than 1d divide sequences among ranks.
bool tokens_are_sequences(const Strategy& strategy) {
  return strategy.tp > 1 && strategy.tensor_mode != TensorMode::one_d;
}

// Returns the number of virtual tokens of the adapter that a row uses.
int64_t num_virtual_tokens(int64_t row, const std::vector<nn::AdaptedRows>& adapted) {
  for (const auto& [adapter, begin, count] : adapted) {
    if (row >= begin && row < begin + count) return adapter->num_virtual_tokens;
  }
  return 0;
}

}  // namespace

ForwardPass::ForwardPass(models::Model& model, const models::ModelFacts& facts,
                         const nn::PagedKeyValueOptions& pages, at::Device device,
                         const ParallelContext* ranks, const AroundStage& around_stage)
    : model_(model),
      device_(device),
      ranks_(ranks),
      around_stage_(around_stage),
      strategy_(ranks ? ranks->strategy() : Strategy{}),
      causal_(facts.causal),
      scores_(facts.scores > 0),
      store_(pages),
      stages_(ranks) {
  if (facts.encoder_layers > 0) memories_.emplace(pages.each_token_alone);
}

int64_t ForwardPass::max_passes_in_flight() const {
  return strategy_.num_stages() == strategy_.pp ? strategy_.pp : 1;
}

void ForwardPass::start(const StepPlan& plan, const std::vector<nn::AdaptedRows>& adapted) {
  for (const auto& [from, to] : plan.copied_pages) store_.copy_page(from, to);
  results_ = {};
  run_stages(plan, adapted);
  if (plan.empty()) return;
  if (must_send_results()) send_results();
  if (!ranks_ || leads(*ranks_)) {
    started_.push_back({.results = std::move(results_),
                        .has_logits = plan.choices.size() < plan.wanted_logits.size(),
                        .has_tokens = !plan.choices.empty(),
                        .has_states = !plan.wanted_states.empty()});
  }
}

PassResults ForwardPass::collect() {
  COLOSSAL_CHECK(!started_.empty(), "no pass was started");
  const Started pass = std::move(started_.front());
  started_.pop_front();
  const comm::Group alone;
  const comm::Group& all = ranks_ ? ranks_->world_group() : alone;
  const auto on_host = [&](const at::Tensor& own) {
    if (!must_send_results()) return comm::on_host(own, all);
    const comm::Group& ends = ranks_->tied_table_group();
    return comm::on_host(receive_activation(1 - ends.rank(), ends), all);
  };
  PassResults results;
  if (pass.has_logits) results.logits = on_host(pass.results.logits);
  if (pass.has_tokens) results.tokens = on_host(pass.results.tokens);
  if (pass.has_states) results.states = on_host(pass.results.states).to(at::kDouble);
  return results;
}

nn::StepContext ForwardPass::begin(const StepPlan& plan,
                                   const std::vector<nn::AdaptedRows>& adapted) {
  std::vector<int64_t> positions, lengths, texts;
  std::vector<nn::PagedChunk> chunks;
  for (const auto& [tokens, prompt, source] : plan.chunks) {
    chunks.push_back(tokens);
    const int64_t before = num_virtual_tokens(std::ssize(positions), adapted);
    for (int64_t at = tokens.positions.begin; at < tokens.positions.end; ++at) {
      positions.push_back(before + at);
      // A prompt's tokens have the length of the whole prompt, so that its division into chunks
      // does not matter. A generated token has the length up to and including itself.
      lengths.push_back(before + std::max(at + 1, prompt));
      texts.push_back(std::ssize(chunks));
    }
  }
  if (causal_) store_.begin_step(chunks);
  const auto count = std::ssize(positions);
  const bool by_sequence = causal_ && tokens_are_sequences(strategy_);
  nn::StepContext context =
      nn::make_step_context(by_sequence ? count : 1, by_sequence ? 1 : count, device_);
  const std::vector<int64_t> sizes{context.tokens().batch, context.tokens().sequence};
  context.tokens().positions = ops::upload(at::tensor(positions, at::kLong).view(sizes), device_);
  context.tokens().lengths = at::tensor(lengths, at::kLong).view(sizes);
  if (causal_) {
    context.services.key_values = &store_;
    if (memories_) context.services.memories = &*memories_;
  } else {
    context.tokens().documents = ops::upload(at::tensor(texts, at::kLong).view(sizes), device_);
    context.tokens().whole_sequence = count;
  }
  return context;
}

void ForwardPass::read_sources(const StepPlan& plan) {
  for (const int64_t source : plan.dropped_sources) memories_->remove(source);
  std::vector<nn::MemoryStore::Chunk> chunks;
  for (const StepPlan::Chunk& chunk : plan.chunks) {
    chunks.push_back({chunk.source, chunk.tokens.positions.size()});
  }
  memories_->begin_step(chunks);
  for (const auto& [number, tokens] : plan.sources) {  // one by one, which bounds the memory
    nn::StepContext context = nn::make_step_context(1, std::ssize(tokens), device_);
    context.tokens().whole_sequence = context.tokens().sequence;
    const at::Tensor read = ops::upload(at::tensor(tokens, at::kLong).unsqueeze(0), device_);
    memories_->add(number, model_.text_inputs().encode(read, context), context);
  }
}

void ForwardPass::run_stages(const StepPlan& plan, const std::vector<nn::AdaptedRows>& adapted) {
  const bool has_work = !plan.empty() || shares_experts();
  nn::StepContext context = has_work ? begin(plan, adapted) : nn::StepContext();
  context.services.adapted_rows = adapted;
  const auto run = [&](int stage, const at::Tensor& before) {
    at::Tensor after;
    const auto work = [&] {
      if (has_work) after = run_stage(stage, before, plan, context);
    };
    around_stage_ ? around_stage_(stage, work) : work();
    return after;
  };
  if (has_work) return stages_.run(run);
  for (int stage = 0; stage < strategy_.num_stages(); ++stage) {
    if (!ranks_ || ranks_->holds_stage(stage)) run(stage, {});
  }
}

at::Tensor ForwardPass::run_stage(int stage, const at::Tensor& before, const StepPlan& plan,
                                  const nn::StepContext& context) {
  nn::BlockState start{{before}};
  if (memories_) read_sources(plan);
  if (stage == 0) {
    const auto per_token = [&](const auto& values) {
      const std::vector<int64_t> sizes{context.tokens().batch, context.tokens().sequence};
      return ops::upload(at::tensor(values, at::kLong).view(sizes), device_);
    };
    models::TokenInputs inputs{per_token(plan.tokens)};
    if (!plan.types.empty()) inputs.types = per_token(plan.types);
    start = model_.text_inputs().embed(inputs, context);
  }
  const Range blocks = strategy_.blocks_of_stage(stage, model_.num_blocks());
  const at::Tensor x = model_.run_blocks(blocks, start, context).output();
  if (stage < strategy_.num_stages() - 1) return x;
  if (plan.empty()) return {};
  const at::Tensor states = model_.token_head().final_states(x, context);
  results_.logits = model_.token_head().logits_of_states(states, context,
                                                         at::tensor(plan.wanted_logits, at::kLong));
  if (!plan.choices.empty() && returns_results()) choose_tokens_of(plan);
  if (!plan.wanted_states.empty()) {
    const at::Tensor wanted = at::tensor(plan.wanted_states, at::kLong);
    results_.states = scores_ ? model_.token_head().logits_of_states(states, context, wanted)
                              : model_.token_head().gathered_states(states, context, wanted);
  }
  return {};
}

void ForwardPass::choose_tokens_of(const StepPlan& plan) {
  results_.tokens = choose_tokens(results_.logits, plan.choices);
  std::vector<int64_t> others;
  auto choice = plan.choices.begin();
  for (int64_t row = 0; row < std::ssize(plan.wanted_logits); ++row) {
    const bool is_chosen = choice != plan.choices.end() && choice->row == row;
    if (is_chosen) {
      ++choice;
    } else {
      others.push_back(row);
    }
  }
  results_.logits = others.empty() ? at::Tensor()
                                   : results_.logits.index_select(
                                         0, ops::upload(at::tensor(others, at::kLong), device_));
}

bool ForwardPass::returns_results() const {
  return !ranks_ || ranks_->coordinate(Axis::tp) == 0;
}

bool ForwardPass::must_send_results() const {
  return ranks_ && strategy_.stage_rank(strategy_.num_stages() - 1) != 0;
}

void ForwardPass::send_results() {
  if (!returns_results()) return;
  const comm::Group& ends = ranks_->tied_table_group();
  for (const at::Tensor& result : {results_.logits, results_.tokens, results_.states}) {
    if (result.defined()) send_activation(result, 1 - ends.rank(), ends);
  }
}

namespace {

nn::PagedKeyValueOptions pages_of(const StepMessage& begin, const models::ModelFacts& facts) {
  COLOSSAL_CHECK(begin.kind == StepMessage::Kind::begin && begin.numbers.size() == 5,
                 "an engine that has not begun: message {} of {} numbers",
                 static_cast<int64_t>(begin.kind), begin.numbers.size());
  return {.layers = facts.layers,
          .pages = begin.numbers[0],
          .page_size = begin.numbers[1],
          .int8 = begin.numbers[2] != 0,
          .each_token_alone = begin.numbers[3] != 0};
}

// This rank's adapters, by AdapterWeights::number on the first rank.
class FollowedAdapters {
 public:
  FollowedAdapters(const ParallelContext& ranks, const LoadAdapter& load)
      : ranks_(ranks), load_(load) {}

  void load(const std::vector<int64_t>& message) {
    COLOSSAL_CHECK(load_ && !message.empty(), "an adapter that this rank has no way to load");
    std::string folder;
    for (const int64_t byte : std::span(message).subspan(1)) {
      folder.push_back(static_cast<char>(byte));
    }
    std::shared_ptr<const nn::AdapterWeights> loaded;
    try {
      loaded = load_(folder);
    } catch (const std::exception& error) {
      log::warn("this rank cannot load the adapter {}: {}", folder, error.what());
    }
    if (count_failures(!loaded, ranks_) == 0) adapters_[message.front()] = std::move(loaded);
  }
  void drop(const std::vector<int64_t>& message) { adapters_.erase(message.at(0)); }

  std::vector<nn::AdaptedRows> rows(const StepPlan& plan) const {
    std::vector<nn::AdaptedRows> rows;
    for (const auto& [adapter, begin, count] : plan.adapted) {
      rows.push_back({adapters_.at(adapter).get(), begin, count});
    }
    return rows;
  }

 private:
  const ParallelContext& ranks_;
  const LoadAdapter& load_;
  std::map<int64_t, std::shared_ptr<const nn::AdapterWeights>> adapters_;
};

}  // namespace

int64_t count_failures(bool failed, const ParallelContext& ranks) {
  const at::Tensor count = at::full({1}, failed ? 1 : 0, at::kLong).to(ranks.device());
  comm::all_reduce(count, ranks.world_group(), comm::Reason::control);
  return count.item<int64_t>();
}

namespace {

void work_on_plans(ForwardPass& pass, FollowedAdapters& adapters, const ParallelContext& ranks) {
  using Kind = StepMessage::Kind;
  for (StepMessage message = hear(ranks); message.kind != Kind::end; message = hear(ranks)) {
    if (message.kind == Kind::adapter) {
      adapters.load(message.numbers);
    } else if (message.kind == Kind::drop_adapter) {
      adapters.drop(message.numbers);
    } else {
      const StepPlan plan =
          message.kind == Kind::step ? plan_from_numbers(message.numbers) : StepPlan();
      pass.start(plan, adapters.rows(plan));
    }
  }
}

}  // namespace

void follow(models::Model& model, const models::ModelFacts& facts, const ParallelContext& ranks,
            const AroundStage& around_stage, const LoadAdapter& load_adapter) {
  const at::NoGradGuard no_grad;
  const StepMessage begin = hear(ranks);
  const nn::PagedKeyValueOptions pages = pages_of(begin, facts);
  std::optional<ops::BatchInvariantProducts> invariant;
  if (pages.each_token_alone) invariant.emplace();
  FollowedAdapters adapters(ranks, load_adapter);
  ForwardPass pass(model, facts, pages, ranks.device(), &ranks, around_stage);
  const std::chrono::milliseconds patience(begin.numbers.back());
  if (patience.count() == 0) return work_on_plans(pass, adapters, ranks);
  count_failures(false, ranks);
  const HeartbeatResponder answers(ranks, patience);
  try {
    work_on_plans(pass, adapters, ranks);
  } catch (const std::exception& error) {
    ranks.world().abort(error.what());  // also ends the thread of `answers`
    throw;
  }
}

}  // namespace colossal::serve
