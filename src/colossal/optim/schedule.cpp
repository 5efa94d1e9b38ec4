#include "colossal/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "colossal/base/error.h"

namespace colossal::optim {

Schedule::Schedule(const ScheduleConfig& config, double peak, int64_t total_steps)
    : config_(config), peak_(peak), total_steps_(total_steps) {
  if (config.name != "cosine" && config.name != "linear" && config.name != "constant") {
    throw ConfigError(
        fmt::format("scheduler.name = \"{}\": unknown; use \"cosine\", \"linear\" or \"constant\"",
                    config.name));
  }
  if (config.warmup_steps < 0) {
    throw ConfigError(
        fmt::format("scheduler.warmup_steps = {}: must not be negative", config.warmup_steps));
  }
}

double Schedule::learning_rate(int64_t step) const {
  if (step <= config_.warmup_steps) {
    return peak_ * static_cast<double>(step) / static_cast<double>(config_.warmup_steps);
  }
  if (config_.name == "constant") return peak_;
  const int64_t span = std::max<int64_t>(1, total_steps_ - config_.warmup_steps);
  const double progress = std::min(
      1.0, static_cast<double>(step - 1 - config_.warmup_steps) / static_cast<double>(span));
  const double shape =
      config_.name == "linear" ? 1 - progress : 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return peak_ * (config_.minimum_ratio + (1 - config_.minimum_ratio) * shape);
}

}  // namespace colossal::optim
