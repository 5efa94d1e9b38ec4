// The rewards of a run (tune.reward) and their weights.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "colossal/tune/rewards.h"

namespace colossal::tune {

class RewardSet {
 public:
  // names: as in make_reward_function(), or "model:DIR". weights: one per name; empty: all 1.
  // Throws ConfigError for an unknown name.
  RewardSet(const std::vector<std::string>& names, std::vector<double> weights,
            const RewardOptions& options);

  // Returns the rewards of each text, [texts][rewards]; NaN if a reward does not apply. If
  // computing a reward throws, this is logged and counted in failures(), and the reward is NaN for
  // all texts. Rewards "model:DIR" are NaN; the caller computes them (ModelReward).
  std::vector<std::vector<double>> score(const std::vector<ScoredText>& texts);
  // Returns the weighted sum of one text's rewards that are not NaN; NaN if all are.
  double total(const std::vector<double>& rewards) const;

  // metric_name() of each reward; if it is the name of an earlier one, with "_2", "_3" ...
  // appended.
  const std::vector<std::string>& metric_names() const { return metric_names_; }
  int64_t failures() const { return failures_; }  // number of rewards that threw so far

 private:
  std::vector<std::string> names_, metric_names_;
  std::vector<double> weights_;
  std::vector<std::unique_ptr<Reward>> rewards_;  // null: computed by a model
  int64_t failures_ = 0;
};

}  // namespace colossal::tune
