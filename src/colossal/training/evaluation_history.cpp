#include "colossal/training/evaluation_history.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace colossal {

EvaluationHistory::EvaluationHistory(const RunConfig& config)
    : metric_(config.checkpoint.best_metric),
      highest_(config.checkpoint.best_is == "highest"),
      keep_best_(config.checkpoint.keep_best),
      early_stopping_(config.train.early_stopping),
      threshold_(config.train.early_stopping_threshold),
      to_beat_(highest_ ? -std::numeric_limits<double>::infinity()
                        : std::numeric_limits<double>::infinity()) {}

bool EvaluationHistory::is_better(double a, double b) const {
  if (!std::isfinite(a)) return false;
  return highest_ ? a > b : a < b;
}

bool EvaluationHistory::add(int64_t step, double value) {
  // A step that is repeated after a resumption counts once.
  std::erase_if(best_, [&](const Entry& entry) { return entry.step >= step; });
  const double needed = highest_ ? to_beat_ + threshold_ : to_beat_ - threshold_;
  if (is_better(value, needed)) {
    to_beat_ = value;
    without_improvement_ = 0;
  } else {
    ++without_improvement_;
  }
  if (!std::isfinite(value)) return false;
  // Of equal values, the earlier step is the better one.
  const auto place = std::ranges::find_if(
      best_, [&](const Entry& entry) { return is_better(value, entry.value); });
  const bool among_best = place - best_.begin() < keep_best_;
  best_.insert(place, {step, value});
  best_.resize(std::min<size_t>(best_.size(), std::max<int64_t>(keep_best_, 1)));
  return among_best;
}

std::set<int64_t> EvaluationHistory::best_steps() const {
  std::set<int64_t> steps;
  if (keep_best_ == 0) return steps;
  for (const Entry& entry : best_) steps.insert(entry.step);
  return steps;
}

bool EvaluationHistory::ends_run() const {
  return early_stopping_ > 0 && without_improvement_ >= early_stopping_;
}

std::string EvaluationHistory::describe_best() const {
  if (best_.empty()) return "";
  return fmt::format("step {}, {} {:.6g}", best_.front().step, metric_, best_.front().value);
}

nlohmann::json EvaluationHistory::to_json() const {
  nlohmann::json best = nlohmann::json::array();
  for (const Entry& entry : best_) best.push_back({entry.step, entry.value});
  nlohmann::json state{{"metric", metric_},
                       {"highest", highest_},
                       {"best", best},
                       {"without_improvement", without_improvement_}};
  if (std::isfinite(to_beat_)) state["to_beat"] = to_beat_;
  return state;
}

void EvaluationHistory::restore(const nlohmann::json& state) {
  if (state.value("metric", "") != metric_ || state.value("highest", false) != highest_) return;
  best_.clear();
  for (const nlohmann::json& entry : state.at("best")) best_.push_back({entry[0], entry[1]});
  best_.resize(std::min<size_t>(best_.size(), std::max<int64_t>(keep_best_, 1)));
  without_improvement_ = state.at("without_improvement");
  to_beat_ = state.value("to_beat", to_beat_);
}

}  // namespace colossal
