#include "colossal/tune/rewards/reward_set.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>

#include "colossal/base/error.h"
#include "colossal/base/log.h"

namespace colossal::tune {

RewardSet::RewardSet(const std::vector<std::string>& names, std::vector<double> weights,
                     const RewardOptions& options)
    : names_(names), weights_(std::move(weights)) {
  if (weights_.empty()) weights_.assign(names.size(), 1);
  COLOSSAL_CHECK(weights_.size() == names.size(), "{} weights of {} rewards", weights_.size(),
                 names.size());
  for (const std::string& name : names) {
    rewards_.push_back(reward_model_folder(name) ? nullptr : make_reward_function(name, options));
    std::string told = metric_name(name);
    const auto others =
        std::ranges::count_if(names_.begin(), names_.begin() + std::ssize(metric_names_),
                              [&](const std::string& other) { return metric_name(other) == told; });
    metric_names_.push_back(others == 0 ? told : fmt::format("{}_{}", told, others + 1));
  }
}

std::vector<std::vector<double>> RewardSet::score(const std::vector<ScoredText>& texts) {
  std::vector<std::vector<double>> scores(
      texts.size(), std::vector<double>(rewards_.size(), std::numeric_limits<double>::quiet_NaN()));
  if (texts.empty()) return scores;
  for (size_t i = 0; i < rewards_.size(); ++i) {
    if (!rewards_[i]) continue;
    try {
      const std::vector<double> found = rewards_[i]->score(texts);
      for (size_t row = 0; row < texts.size(); ++row) scores[row][i] = found[row];
    } catch (const std::exception& error) {
      failures_ += std::ssize(texts);
      log::warn("the reward \"{}\" failed for {} completions, which have no reward from it: {}",
                names_[i], texts.size(), error.what());
    }
  }
  return scores;
}

double RewardSet::total(const std::vector<double>& rewards) const {
  double sum = 0;
  bool any = false;
  for (size_t i = 0; i < rewards.size(); ++i) {
    if (std::isnan(rewards[i])) continue;
    sum += weights_[i] * rewards[i];
    any = true;
  }
  return any ? sum : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace colossal::tune
