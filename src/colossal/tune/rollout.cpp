#include "colossal/tune/rollout.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/ops/few_rows.h"
#include "colossal/serve/engine_core.h"

namespace colossal::tune {
namespace {

int64_t longest(const std::vector<Prompt>& prompts) {
  int64_t tokens = 1;
  for (const Prompt& prompt : prompts) tokens = std::max(tokens, std::ssize(prompt.tokens));
  return tokens;
}

// Pages for all that is sampled at once, so that nothing is computed twice.
serve::EngineOptions engine_options(const models::ModelFacts& facts, const Engine& engine,
                                    const std::vector<Prompt>& prompts,
                                    const RolloutOptions& options) {
  serve::EngineOptions made{
      .max_num_seqs = options.max_num_seqs,
      .max_model_len = std::min(facts.positions, longest(prompts) + options.max_completion_length),
      .batch_invariant = options.batch_invariant,
      .type = engine.config().precision.compute,
      .device = engine.context().device()};
  made.max_num_seqs =
      std::clamp<int64_t>(std::ssize(prompts), 1, std::max<int64_t>(1, made.max_num_seqs));
  const int64_t pages = made.max_model_len / made.page_size + 2;
  made.cache_bytes =
      made.max_num_seqs * pages * serve::page_bytes(made, facts, engine.context().strategy());
  return made;
}

// Brings the weights of a stage for a pass, or lets those gather that do so with this rank.
serve::AroundStage around_stage(Engine& engine) {
  return [&engine](int stage, const std::function<void()>& run) {
    engine.chunks().begin_evaluation(stage);
    run();
    engine.chunks().end_evaluation();
  };
}

// The ranks that sample together; null: each by itself.
const ParallelContext* ranks_of(const Engine& engine) {
  const Strategy& strategy = engine.context().strategy();
  return strategy.pp * strategy.tp > 1 ? &engine.context() : nullptr;
}

class Rollout {
 public:
  Rollout(models::LanguageModel& model, const models::ModelFacts& facts, Engine& engine,
          const std::vector<Prompt>& prompts, const RolloutOptions& options)
      : engine_(engine),
        options_(options),
        core_(model, facts, engine_options(facts, engine, prompts, options), ranks_of(engine),
              around_stage(engine)),
        completions_(prompts.size()) {
    for (size_t i = 0; i < prompts.size(); ++i) add(prompts[i], i);
  }

  std::vector<Completion> run() {
    const at::NoGradGuard no_grad;
    std::optional<ops::BatchInvariantProducts> invariant;
    if (options_.batch_invariant) invariant.emplace();
    while (any_busy()) core_.step();
    if (!error_.empty()) throw Error(fmt::format("a completion could not be sampled: {}", error_));
    return std::move(completions_);
  }

 private:
  void add(const Prompt& prompt, size_t index) {
    auto sequence = std::make_unique<serve::Sequence>();
    sequence->id = index + 1;
    sequence->tokens = prompt.tokens;
    serve::Request& request = sequence->request;
    request.prompt = prompt.tokens;
    request.sampling = options_.sampling;
    request.sampling.seed = prompt.seed;
    request.max_new_tokens = options_.max_completion_length;
    request.logprobs = 0;
    request.logprobs_temperature = options_.sampling.temperature;
    request.on_token = [this, index](const serve::GeneratedToken& token) {
      Completion& completion = completions_[index];
      completion.tokens.push_back(token.token);
      completion.log_probabilities.push_back(token.logprob);
      completion.entropy += token.entropy;
      completion.ended =
          std::ranges::find(options_.end_tokens, token.token) != options_.end_tokens.end();
      return !completion.ended;
    };
    request.on_finish = [this](serve::FinishReason reason, const serve::Usage&,
                               const std::string& error) {
      if (reason == serve::FinishReason::failed && error_.empty()) error_ = error;
    };
    core_.add(std::move(sequence));
  }

  // Whether this rank has anything to sample, or one that gathers weights with it.
  bool any_busy() {
    const bool busy = !core_.idle();
    const ParallelContext& context = engine_.context();
    if (context.strategy().zero != 3 || context.data_group().size() == 1) return busy;
    const at::Tensor ranks = at::full({1}, busy ? 1.0 : 0.0, at::kDouble).to(context.device());
    comm::all_reduce(ranks, context.data_group(), comm::Reason::control);
    return ranks.item<double>() > 0;
  }

  Engine& engine_;
  const RolloutOptions& options_;
  serve::EngineCore core_;
  std::vector<Completion> completions_;
  std::string error_;
};

}  // namespace

std::vector<Completion> roll_out(models::LanguageModel& model, const models::ModelFacts& facts,
                                 Engine& engine, const std::vector<Prompt>& prompts,
                                 const RolloutOptions& options) {
  engine.chunks().synchronize();
  if (const ParallelContext* ranks = ranks_of(engine); ranks && !serve::leads(*ranks)) {
    serve::follow(model, facts, *ranks, around_stage(engine));
    return {};
  }
  return Rollout(model, facts, engine, prompts, options).run();
}

}  // namespace colossal::tune
