// The rewards of a run, together.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "colossal/tune/rewards.h"

namespace colossal::tune {

class RewardSet {
 public:
  // weights: one for each name, or none: all 1. Throws ConfigError for names that are none.
  RewardSet(const std::vector<std::string>& names, std::vector<double> weights,
            const RewardOptions& options);

  // Of each text each reward, NaN where it does not apply. A reward that fails is told in the log
  // and counted; it does not apply then.
  std::vector<std::vector<double>> score(const std::vector<ScoredText>& texts);
  // Weighted, without those that do not apply; NaN where none does.
  double total(const std::vector<double>& rewards) const;

  const std::vector<std::string>& metric_names() const { return metric_names_; }
  int64_t failures() const { return failures_; }  // of calls, so far

 private:
  std::vector<std::string> names_, metric_names_;
  std::vector<double> weights_;
  std::vector<std::unique_ptr<Reward>> rewards_;
  int64_t failures_ = 0;
};

}  // namespace colossal::tune
