// Computes the rewards of a run's completions. The completions are divided over the data group; for
// each share, one rank (serve::leads()) calls the reward functions, i.e. all rewards except models,
// in a separate thread. Reward models run on all ranks together.
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
  // Returns the sample at a position in the run's order. Must be thread-safe if it is called from a
  // thread other than the training loop's.
  using SampleAt = std::function<const Sample&(int64_t position)>;

  // prompts: all prompts of the run. The reference and pointer arguments must outlive this object.
  // Throws ConfigError for unknown rewards, and whatever ModelReward throws.
  CompletionRewards(const Job& job, const ParallelContext& context, const TuneConfig& config,
                    const text::Tokenizer& tokenizer, const std::vector<Sample>& prompts,
                    SampleAt sample_at);
  void load();  // loads the weights of reward models. Collective.

  // Requests the rewards of completions; all ranks pass the same completions. Reward models have
  // scored them when ask() returns; reward functions may still run, until collect(). Call collect()
  // before the next ask(). Collective.
  void ask(const std::vector<ScoredCompletion*>& completions);
  // Waits for the reward functions, then sets ScoredCompletion::rewards of the completions passed
  // to ask(), which must still be in `completions`, on all ranks. Does nothing if none were
  // requested. Collective.
  void collect(BegunCompletions& completions);
  // Returns the weighted sum of rewards of each completion: [completions], fp64.
  at::Tensor totals(const std::vector<ScoredCompletion>& completions) const;

  // Names for metrics, in the order of ScoredCompletion::rewards.
  const std::vector<std::string>& metric_names() const { return functions_.metric_names(); }
  // Number of failed calls of rewards over all ranks, as of the last collect().
  int64_t failures() const { return failures_; }

 private:
  std::vector<ScoredText> texts_of(const std::vector<ScoredCompletion*>& completions) const;

  // What the last ask() requested.
  struct Asked {
    std::vector<int64_t> numbers = {};                     // of the completions
    std::map<size_t, std::vector<double>> of_models = {};  // by index in tune.reward
    std::future<nlohmann::json> of_functions = {};         // of this rank's share
  };

  const ParallelContext& context_;
  const text::Tokenizer& tokenizer_;
  SampleAt sample_at_;
  RewardSet functions_;
  std::map<size_t, std::unique_ptr<ModelReward>> models_;  // key: index in tune.reward
  int64_t failures_ = 0;
  Asked asked_;  // declared last: destroying it waits for its thread, which uses other members
};

}  // namespace colossal::tune
