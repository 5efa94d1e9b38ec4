// Computes the rewards of the completions of an on-policy run. Used by OnlineTask. A reward
// function is any reward except a reward model: a built-in function, a program or an HTTP service.
// The completions are divided into dp * sp shares, one for each position along dp and sp. Of the pp
// x tp ranks at a position, one (serve::leads()) calls the reward functions for the share, in a
// separate thread. Reward models run on all ranks together.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "colossal/mesh/parallel_context.h"
#include "colossal/text/tokenizer/tokenizer.h"
#include "colossal/tune/rewards/model_reward.h"
#include "colossal/tune/rewards/reward_set.h"
#include "colossal/tune/rollout/begun_completions.h"
#include "colossal/tune/rollout/generation.h"
#include "colossal/tune/tune_config.h"

namespace colossal::tune {

class CompletionRewards {
 public:
  // A function that returns the sample at a position in the run's order of samples. ask() calls it.
  using SampleAt = std::function<const Sample&(int64_t position)>;

  // context: the communication groups to use. prompts: all prompts of the run. `job`, `context`,
  // `tokenizer`, and what `sample_at` refers to must outlive this object. Throws ConfigError for
  // unknown rewards, and for a reward model without a chat template if prompts are lists of
  // messages; also what the constructor of ModelReward throws.
  CompletionRewards(const Job& job, const ParallelContext& context, const TuneConfig& config,
                    const text::Tokenizer& tokenizer, const std::vector<Sample>& prompts,
                    SampleAt sample_at);
  void load();  // Loads the weights of reward models. Call before ask(). Collective.

  // Starts to compute the rewards of completions. All ranks pass the same completions. When ask()
  // returns, reward models have scored them; reward functions may still run in another thread. Call
  // collect() before the next ask(). Collective.
  void ask(const std::vector<ScoredCompletion*>& completions);
  // Waits for the reward functions, then sets ScoredCompletion::rewards, on all ranks, of the
  // completions that the last ask() received. `completions` must still hold them. Does nothing if
  // there was no ask() since the last collect(). Collective.
  void collect(BegunCompletions& completions);
  // Throws Error if none of the completions has a reward: the run would learn nothing. The message
  // names tune.reward.
  void require_some(const std::vector<ScoredCompletion>& completions) const;
  // Returns the weighted sum of the rewards of each completion, [completions] fp64. Rewards that
  // are NaN are left out; the result is NaN for a completion whose rewards are all NaN.
  at::Tensor totals(const std::vector<ScoredCompletion>& completions) const;

  // Returns the name of each reward in metrics, in the order of ScoredCompletion::rewards.
  const std::vector<std::string>& metric_names() const { return functions_.metric_names(); }
  // Returns how many rewards of completions failed (RewardSet::failures() of all ranks and
  // ModelReward::failures()), from the start of this process to the last collect().
  int64_t failures() const { return failures_; }

 private:
  std::vector<ScoredText> texts_of(const std::vector<ScoredCompletion*>& completions) const;

  // What the last ask() requested; empty after collect().
  struct Asked {
    std::vector<int64_t> numbers = {};  // ScoredCompletion::number of each completion
    // Scores of reward models, one per completion. Key: index in tune.reward.
    std::map<size_t, std::vector<double>> of_models = {};
    // Results of the reward functions for this rank's share; invalid on ranks that do not lead.
    std::future<nlohmann::json> of_functions = {};
  };

  const ParallelContext& context_;
  const text::Tokenizer& tokenizer_;
  SampleAt sample_at_;
  std::vector<std::string> rewards_;  // tune.reward
  RewardSet functions_;
  std::map<size_t, std::unique_ptr<ModelReward>> models_;  // key: index in tune.reward
  int64_t failures_ = 0;
  Asked asked_;  // declared last: destroying it waits for its thread, which uses other members
};

}  // namespace colossal::tune
