#include "colossal/tune/rollout/rollout.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/base/random.h"
#include "colossal/ops/product/few_rows.h"
#include "colossal/serve/engine_core.h"
#include "colossal/serve/generation_settings.h"
#include "colossal/text/model_folder.h"
#include "colossal/tune/rollout/gather_parts.h"

namespace colossal::tune {
namespace {

// Returns the most tokens of a prompt and its completion.
int64_t longest(const std::vector<Prompt>& prompts) {
  int64_t tokens = 1;
  for (const Prompt& prompt : prompts) {
    tokens = std::max(tokens, std::ssize(prompt.tokens) + prompt.max_new_tokens);
  }
  return tokens;
}

// Whether the passes of data ranks communicate, so that all must run equally many: with ZeRO 3 they
// gather weights, with expert parallelism they share experts.
bool passes_are_shared(const ParallelContext& context) {
  const Strategy& strategy = context.strategy();
  return context.data_group().size() > 1 && (strategy.zero == 3 || strategy.expert_ranks() > 1);
}

// Returns the ranks that sample together; null if each rank samples by itself.
const ParallelContext* ranks_of(const ParallelContext& context) {
  const Strategy& strategy = context.strategy();
  return strategy.pp * strategy.tp * strategy.expert_ranks() > 1 ? &context : nullptr;
}

class Rollout {
 public:
  Rollout(const SampledModel& from, const std::vector<Prompt>& prompts,
          const RolloutOptions& options)
      : context_(from.context),
        options_(options),
        core_(from.model, from.facts,
              sampler_options({.facts = from.facts,
                               .strategy = from.context.strategy(),
                               .type = from.type,
                               .completions = std::ssize(prompts),
                               .longest = longest(prompts),
                               .device = from.context.device()},
                              options),
              ranks_of(from.context), from.around_stage),
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
    request.prompt = {prompt.tokens.begin(), prompt.tokens.end() - prompt.begun};
    sequence->usage.completion_tokens = prompt.begun;
    request.sampling = options_.sampling;
    request.sampling.seed = prompt.seed;
    request.max_new_tokens = prompt.begun + prompt.max_new_tokens;
    request.end_tokens = options_.end_tokens;
    request.logprobs = 0;
    request.logprobs_temperature = options_.sampling.temperature;
    const auto take = [this, index](const serve::GeneratedToken& token) {
      Completion& completion = completions_[index];
      completion.tokens.push_back(token.token);
      completion.log_probabilities.push_back(token.logprob);
      completion.entropy += token.entropy;
      return true;
    };
    request.on_token = take;
    request.on_end_token = [this, index, take](const serve::GeneratedToken& token) {
      take(token);
      completions_[index].ended = true;
    };
    request.on_finish = [this](serve::FinishReason reason, const serve::Usage&,
                               const std::string& error) {
      if (reason == serve::FinishReason::failed && error_.empty()) error_ = error;
    };
    core_.add(std::move(sequence));
  }

  // Whether this rank has anything to sample, or a rank whose passes communicate with its own.
  bool any_busy() {
    const bool busy = !core_.idle();
    if (!passes_are_shared(context_)) return busy;
    const at::Tensor ranks = at::full({1}, busy ? 1.0 : 0.0, at::kDouble).to(context_.device());
    comm::all_reduce(ranks, context_.data_group(), comm::Reason::control);
    return comm::on_host(ranks, context_.data_group()).item<double>() > 0;
  }

  const ParallelContext& context_;
  const RolloutOptions& options_;
  serve::EngineCore core_;
  std::vector<Completion> completions_;
  std::string error_;
};

}  // namespace

serve::EngineOptions sampler_options(const SamplerRequirements& what,
                                     const RolloutOptions& options) {
  serve::EngineOptions made{.max_num_seqs = std::clamp<int64_t>(
                                what.completions, 1, std::max<int64_t>(1, options.max_num_seqs)),
                            .max_model_len = std::min(what.facts.positions, what.longest),
                            .batch_invariant = options.batch_invariant,
                            .heartbeat = {.timeout = {}},  // no heartbeats in a step
                            .type = what.type,
                            .device = what.device};
  const int64_t pages = made.max_model_len / made.page_size + 2;
  made.cache_bytes = made.max_num_seqs * pages * serve::page_bytes(made, what.facts, what.strategy);
  return made;
}

SampledModel sampled_model(models::Model& model, const models::ModelFacts& facts, Engine& engine) {
  engine.chunks().synchronize();
  return {.model = model,
          .facts = facts,
          .context = engine.context(),
          .type = engine.config().precision.compute,
          // Also called for empty passes: other ranks gather weights together with this rank.
          .around_stage = [&engine](int stage, const std::function<void()>& run) {
            engine.chunks().begin_evaluation(stage);
            run();
            engine.chunks().end_evaluation();
          }};
}

std::vector<Completion> roll_out(const SampledModel& from, const std::vector<Prompt>& prompts,
                                 const RolloutOptions& options) {
  if (const ParallelContext* ranks = ranks_of(from.context); ranks && !serve::leads(*ranks)) {
    serve::follow(from.model, from.facts, *ranks, from.around_stage);
    return {};
  }
  return Rollout(from, prompts, options).run();
}

RolloutOptions rollout_options(const TuneConfig& config, const Job& job,
                               const text::Tokenizer& tokenizer, const text::TaughtText& taught) {
  const RunConfig& run = job.config;
  RolloutOptions options;
  options.batch_invariant = config.batch_invariant;
  if (run.model.path.empty()) {
    options.end_tokens = {tokenizer.end_of_text()};
  } else {
    const text::ModelFolder folder(run.model.path, run.adapter.resume_from);
    options.end_tokens = folder.end_tokens(tokenizer);
    options.sampling = serve::read_generation_settings(folder, job.model.facts.vocabulary).sampling;
  }
  for (const int32_t token : taught.end_tokens) {
    if (std::ranges::find(options.end_tokens, token) == options.end_tokens.end()) {
      options.end_tokens.push_back(token);
    }
  }
  // The end of a part of a completion is not the end of the completion.
  if (config.max_staleness > 0) options.sampling.forced_eos_tokens.clear();
  options.sampling.temperature = config.temperature;
  options.sampling.top_k = config.top_k;
  options.sampling.top_p = config.top_p;
  options.sampling.min_p = config.min_p;
  options.sampling.repetition_penalty = config.repetition_penalty;
  return options;
}

uint64_t seed_of_completion(uint64_t run_seed, int64_t number) {
  const RandomKey key = random_key(run_seed, static_cast<uint64_t>(number), "completion");
  return uint64_t{key.high} << 32 | key.low;
}

Range share_of(int64_t count, int rank, int ranks) {
  return {count * rank / ranks, count * (rank + 1) / ranks};
}

std::vector<Completion> roll_out_on_all_ranks(const SampledModel& from,
                                              const std::vector<Prompt>& prompts,
                                              const RolloutOptions& options) {
  const ParallelContext& context = from.context;
  const Range here = share_of(std::ssize(prompts), context.coordinate({"dp", "sp"}),
                              static_cast<int>(context.data_group().size()));
  const std::vector<Completion> mine =
      roll_out(from, {prompts.begin() + here.begin, prompts.begin() + here.end}, options);
  nlohmann::json part = nlohmann::json::array();
  for (const Completion& each : mine) part.push_back(to_json(each));
  std::vector<Completion> all;
  for (const nlohmann::json& of_rank : gather_parts(part, serve::leads(context), context)) {
    for (const nlohmann::json& each : of_rank) all.push_back(completion_from_json(each));
  }
  COLOSSAL_CHECK(all.size() == prompts.size(), "{} completions of {}", all.size(), prompts.size());
  return all;
}

nlohmann::json to_json(const Completion& completion) {
  return {{"tokens", completion.tokens},
          {"log_probabilities", completion.log_probabilities},
          {"entropy", completion.entropy},
          {"ended", completion.ended}};
}

Completion completion_from_json(const nlohmann::json& json) {
  return {.tokens = json.at("tokens"),
          .log_probabilities = json.at("log_probabilities"),
          .entropy = json.at("entropy"),
          .ended = json.at("ended")};
}

}  // namespace colossal::tune
