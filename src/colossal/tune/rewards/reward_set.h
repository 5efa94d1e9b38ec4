// All rewards of an on-policy run (tune.reward) and their weights (tune.reward_weights). Used by
// CompletionRewards.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "colossal/tune/rewards/rewards.h"

namespace colossal::tune {

class RewardSet {
 public:
  // names: elements of tune.reward, as make_reward_function() (rewards.h) takes them, or
  // "model:DIR". weights: one per
  // name; empty: all 1. Throws ConfigError for an unknown name.
  RewardSet(const std::vector<std::string>& names, std::vector<double> weights,
            const RewardOptions& options);

  // Returns the rewards of each text, [texts][rewards], in the order of `names`; NaN if a reward
  // does not apply. If a reward throws, score() logs the error, counts the texts in
  // failures(), and returns NaN for that reward of all texts. Also NaN for "model:DIR": the caller
  // computes these rewards with ModelReward.
  std::vector<std::vector<double>> score(const std::vector<ScoredText>& texts);
  // Returns the weighted sum of one text's rewards. Omits rewards that are NaN; returns NaN if all
  // rewards are NaN. rewards: in the order of `names`.
  double total(const std::vector<double>& rewards) const;

  // Returns the name of each reward in metrics: metric_name() (rewards.h), with "_2", "_3", ...
  // appended if earlier rewards have the same name.
  const std::vector<std::string>& metric_names() const { return metric_names_; }
  // Returns how many rewards of texts are missing so far because their reward threw.
  int64_t failures() const { return failures_; }

 private:
  std::vector<std::string> names_, metric_names_;
  std::vector<double> weights_;
  std::vector<std::unique_ptr<Reward>> rewards_;  // null for "model:DIR"
  int64_t failures_ = 0;
};

}  // namespace colossal::tune
