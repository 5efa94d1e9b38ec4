// The rewards of a run and their weights.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "colossal/tune/rewards.h"

namespace colossal::tune {

class RewardSet {
 public:
  // weights: one per name; empty: all 1. Throws ConfigError for an unknown name.
  RewardSet(const std::vector<std::string>& names, std::vector<double> weights,
            const RewardOptions& options);

  // Returns each reward of each text, [texts][rewards]; NaN if a reward does not apply. A reward
  // that throws is logged, counted and NaN. Rewards by models are NaN; the caller computes them
  // (ModelReward).
  std::vector<std::vector<double>> score(const std::vector<ScoredText>& texts);
  // Returns the weighted sum of the rewards that apply; NaN if none does.
  double total(const std::vector<double>& rewards) const;

  const std::vector<std::string>& metric_names() const { return metric_names_; }
  int64_t failures() const { return failures_; }  // number of failed calls so far

 private:
  std::vector<std::string> names_, metric_names_;
  std::vector<double> weights_;
  std::vector<std::unique_ptr<Reward>> rewards_;  // null: computed by a model
  int64_t failures_ = 0;
};

}  // namespace colossal::tune
