// Computes the rewards of a run's completions. Each rank calls reward functions for its share of
// the completions, in a thread of its own; reward models run on all ranks together.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "colossal/mesh/parallel_context.h"
#include "colossal/text/tokenizer.h"
#include "colossal/tune/begun_completions.h"
#include "colossal/tune/generation.h"
#include "colossal/tune/model_reward.h"
#include "colossal/tune/reward_set.h"
#include "colossal/tune/tune_config.h"

namespace colossal::tune {

class CompletionRewards {
 public:
  // Returns the sample at a position in the run's order.
  using SampleAt = std::function<const Sample&(int64_t position)>;

  // prompts: all prompts of the run. The reference and pointer arguments must outlive this object.
  // Throws ConfigError for unknown rewards, and whatever ModelReward throws.
  CompletionRewards(const Job& job, const ParallelContext& context, const TuneConfig& config,
                    const text::Tokenizer& tokenizer, const std::vector<Sample>& prompts,
                    SampleAt sample_at);
  void load();  // loads the weights of reward models. Collective.

  // Requests the rewards of completions. All ranks pass the same completions. Reward models have
  // scored them when ask() returns; functions go on until collect(). Call collect() before the next
  // ask(). Collective.
  void ask(const std::vector<ScoredCompletion*>& completions);
  // Waits for the functions, then sets the rewards of the requested completions on all ranks. Does
  // nothing if none were requested. Collective.
  void collect(BegunCompletions& completions);
  // Returns the weighted sum of rewards of each completion: [completions], fp64.
  at::Tensor totals(const std::vector<ScoredCompletion>& completions) const;

  // Names for metrics, in the order of ScoredCompletion::rewards.
  const std::vector<std::string>& metric_names() const { return functions_.metric_names(); }
  int64_t failures() const { return failures_; }  // number of failed calls so far, over all ranks

 private:
  std::vector<ScoredText> texts_of(const std::vector<ScoredCompletion*>& completions) const;

  // What was asked for.
  struct Asked {
    std::vector<int64_t> numbers = {};  // of the completions
    std::map<size_t, std::vector<double>> of_models = {};
    std::future<nlohmann::json> of_functions = {};  // of this rank's share
  };

  const ParallelContext& context_;
  const text::Tokenizer& tokenizer_;
  SampleAt sample_at_;
  RewardSet functions_;
  std::map<size_t, std::unique_ptr<ModelReward>> models_;  // key: index in tune.reward
  int64_t failures_ = 0;
  Asked asked_;  // last: its thread uses the others
};

}  // namespace colossal::tune
