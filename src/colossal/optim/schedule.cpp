#include "colossal/optim/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "colossal/base/error.h"
#include "colossal/base/nearest.h"

namespace colossal::optim {
namespace {

double cosine(double progress) {
  return 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

void require(bool valid, const char* key, const std::string& value, const char* rule) {
  if (!valid) throw ConfigError(fmt::format("scheduler.{} = {}: {}", key, value, rule));
}

bool falls_at_the_end(const std::string& name) {
  return name == "wsd" || name == "power";
}

}  // namespace

std::vector<std::string> schedule_names() {
  return {"cosine",      "linear",      "constant", "cosine_restarts", "polynomial",
          "flat_cosine", "exponential", "step",     "multistep",       "inverse_sqrt",
          "power",       "wsd",         "one_cycle"};
}

Schedule::Schedule(const ScheduleConfig& config, double peak, int64_t total_steps)
    : config_(config), peak_(peak), total_steps_(total_steps) {
  const std::vector<std::string> names = schedule_names();
  if (std::ranges::find(names, config.name) == names.end()) {
    throw ConfigError(fmt::format("scheduler.name = \"{}\": unknown; nearest: \"{}\"", config.name,
                                  nearest(config.name, names)));
  }
  const auto text = [](auto value) { return fmt::format("{}", value); };
  require(config.warmup_steps >= 0, "warmup_steps", text(config.warmup_steps),
          "must not be negative");
  require(config.name != "one_cycle" || config.warmup_steps == 0, "warmup_steps",
          text(config.warmup_steps), "one_cycle has a rise of its own; leave warmup_steps out");
  require(config.step_size > 0, "step_size", text(config.step_size), "must be at least 1");
  require(config.cycles > 0, "cycles", text(config.cycles), "must be at least 1");
  if (config.name == "multistep" && config.milestones.empty()) {
    throw ConfigError(
        "scheduler.name = \"multistep\" needs scheduler.milestones, the steps after which the rate "
        "falls, such as [100, 200]; for a constant rate use \"constant\"");
  }
  require(std::ranges::is_sorted(config.milestones), "milestones", "...", "must be ascending");
  require(config.decay_steps.value_or(0) >= 0, "decay_steps", text(config.decay_steps.value_or(0)),
          "must not be negative");
  // Settings of other schedules; those with a default count as given if they differ from it.
  const ScheduleConfig unset;
  const auto only = [&](const char* key, bool given, std::vector<std::string> owners) {
    if (!given || std::ranges::find(owners, config.name) != owners.end()) return;
    throw ConfigError(
        fmt::format("scheduler.{} is a setting of {}, but scheduler.name = \"{}\"; leave "
                    "it out",
                    key, fmt::join(owners, " and "), config.name));
  };
  only("power", config.power.has_value(), {"polynomial", "power"});
  only("decay_factor", config.decay_factor != unset.decay_factor,
       {"exponential", "step", "multistep"});
  only("step_size", config.step_size != unset.step_size, {"step"});
  only("milestones", !config.milestones.empty(), {"multistep"});
  only("flat_ratio", config.flat_ratio != unset.flat_ratio, {"flat_cosine"});
  only("cycles", config.cycles != unset.cycles, {"cosine_restarts"});
  only("decay_steps", config.decay_steps.has_value(), {"wsd", "power"});
  only("decay_shape", config.decay_shape != unset.decay_shape, {"wsd", "power"});
}

int64_t Schedule::decay_steps() const {
  const int64_t by_default = config_.name == "wsd" ? (total_steps_ + 9) / 10 : 0;
  return config_.decay_steps.value_or(by_default);
}

double Schedule::final_decay(int64_t step) const {
  const int64_t steps = decay_steps();
  if (!falls_at_the_end(config_.name) || steps == 0 || step <= total_steps_ - steps) return 1;
  const double done = std::min(
      1.0, static_cast<double>(step - 1 - (total_steps_ - steps)) / static_cast<double>(steps));
  if (config_.decay_shape == "cosine") return cosine(done);
  return config_.decay_shape == "sqrt" ? 1 - std::sqrt(done) : 1 - done;
}

// The two phases of OneCycleLR with pct_start = 0.3, div_factor = 25 and final_div_factor = 1e4.
double Schedule::one_cycle(int64_t step) const {
  constexpr double kFirst = 1.0 / 25, kLast = kFirst / 1e4;
  const double top = 0.3 * static_cast<double>(total_steps_) - 1;
  const double end = static_cast<double>(total_steps_) - 1;
  const double at = std::min(static_cast<double>(step - 1), end);
  if (at <= top) return 1 + (kFirst - 1) * cosine(at / top);
  return kLast + (1 - kLast) * cosine((at - top) / (end - top));
}

double Schedule::shape(int64_t step) const {
  const std::string& name = config_.name;
  const int64_t warmup = config_.warmup_steps;
  const auto n = static_cast<double>(step - 1 - warmup);
  const auto span = static_cast<double>(std::max<int64_t>(1, total_steps_ - warmup));
  const double progress = std::min(1.0, n / span);
  if (name == "linear") return 1 - progress;
  if (name == "cosine") return cosine(progress);
  if (name == "cosine_restarts") {
    if (progress >= 1) return 0;
    return cosine(std::fmod(static_cast<double>(config_.cycles) * progress, 1.0));
  }
  if (name == "polynomial") return std::pow(1 - progress, config_.power.value_or(1));
  if (name == "flat_cosine") {
    const double flat = config_.flat_ratio;
    return progress <= flat ? 1 : cosine((progress - flat) / (1 - flat));
  }
  if (name == "exponential") return std::pow(config_.decay_factor, n);
  if (name == "step") {
    return std::pow(config_.decay_factor, std::floor(n / static_cast<double>(config_.step_size)));
  }
  if (name == "multistep") {
    const auto passed = std::ranges::count_if(config_.milestones,
                                              [&](int64_t milestone) { return milestone < step; });
    return std::pow(config_.decay_factor, static_cast<double>(passed));
  }
  if (name == "inverse_sqrt") {
    const double scale = warmup > 0 ? static_cast<double>(warmup) : 1e4;
    return std::sqrt(scale / (n + scale));
  }
  if (name == "power") {
    const auto scale = static_cast<double>(std::max<int64_t>(1, warmup));
    return std::pow(scale / (n + scale), config_.power.value_or(0.5));
  }
  return 1;  // "wsd"
}

double Schedule::learning_rate(int64_t step) const {
  const std::string& name = config_.name;
  if (step <= config_.warmup_steps) {
    return peak_ * static_cast<double>(step) / static_cast<double>(config_.warmup_steps);
  }
  if (name == "constant") return peak_;
  const double least = config_.minimum_ratio;
  if (name == "one_cycle") return peak_ * std::max(least, one_cycle(step));
  const bool has_no_end = name == "exponential" || name == "step" || name == "multistep" ||
                          name == "inverse_sqrt" || name == "power";
  const double ratio =
      has_no_end ? std::max(least, shape(step)) : least + (1 - least) * shape(step);
  const double left = final_decay(step);
  return peak_ * (left == 1 ? ratio : least + (ratio - least) * left);
}

}  // namespace colossal::optim
