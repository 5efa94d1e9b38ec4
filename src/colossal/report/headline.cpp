#include "colossal/report/headline.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include "colossal/base/units.h"
#include "colossal/report/quantity.h"

namespace colossal::report {
namespace {

using Field = double StepMetrics::*;

// Returns the steps at which the field has a value.
std::vector<const StepMetrics*> steps_with(std::span<const StepMetrics> metrics, Field field) {
  std::vector<const StepMetrics*> steps;
  for (const StepMetrics& step : metrics) {
    if (std::isfinite(step.*field)) steps.push_back(&step);
  }
  return steps;
}

std::vector<double> values_of(std::span<const StepMetrics> metrics, Field field) {
  std::vector<double> values;
  for (const StepMetrics* step : steps_with(metrics, field)) values.push_back(step->*field);
  return values;
}

double sum_of(std::span<const StepMetrics> metrics, Field field) {
  double sum = 0;
  for (const double value : values_of(metrics, field)) sum += value;
  return sum;
}

std::string format_seconds(double seconds) {
  return format_duration(std::chrono::duration<double>(seconds));
}

void add_losses(std::span<const StepMetrics> metrics, std::vector<Headline>& out) {
  const auto trained = steps_with(metrics, &StepMetrics::loss);
  if (trained.empty()) return;
  out.push_back({"Final loss", format_quantity(trained.back()->loss, kNumber),
                 fmt::format("{} at step {}", format_quantity(trained.front()->loss, kNumber),
                             trained.front()->step)});
}

// Adds a metric of the task, such as the reward.
void add_task_metric(std::span<const StepMetrics> metrics, const std::string& label,
                     const std::string& name, Unit unit, std::vector<Headline>& out) {
  std::vector<std::pair<int64_t, double>> values;  // step, value
  for (const StepMetrics& step : metrics) {
    const auto found = step.task_metrics.find(name);
    if (found != step.task_metrics.end() && std::isfinite(found->second)) {
      values.emplace_back(step.step, found->second);
    }
  }
  if (values.empty()) return;
  out.push_back({label, format_quantity(values.back().second, unit),
                 fmt::format("{} at step {}", format_quantity(values.front().second, unit),
                             values.front().first)});
}

void add_validation(std::span<const StepMetrics> metrics, std::vector<Headline>& out) {
  const auto evaluated = steps_with(metrics, &StepMetrics::validation_loss);
  if (evaluated.empty()) return;
  const StepMetrics& last = *evaluated.back();
  const StepMetrics& best = **std::ranges::min_element(
      evaluated, {}, [](const StepMetrics* step) { return step->validation_loss; });
  const std::string of_best =
      std::isfinite(last.images)
          ? "the best of all"
          : fmt::format("perplexity {}", format_quantity(std::exp(last.validation_loss), kCount));
  out.push_back({"Validation loss", format_quantity(last.validation_loss, kNumber),
                 &best == &last
                     ? of_best
                     : fmt::format("best {} at step {}",
                                   format_quantity(best.validation_loss, kNumber), best.step)});
}

void add_speed(std::span<const StepMetrics> metrics, std::vector<Headline>& out) {
  const auto images = values_of(metrics, &StepMetrics::images_per_second);
  const auto tokens = values_of(metrics, &StepMetrics::tokens_per_second);
  if (!images.empty()) {
    out.push_back({"Images per second", format_count(std::llround(median(images))), "median"});
  } else if (!tokens.empty()) {
    out.push_back({"Tokens per second", format_count(std::llround(median(tokens))), "median"});
  }
  const auto utilization = values_of(metrics, &StepMetrics::model_flops_utilization);
  if (!utilization.empty()) {
    out.push_back({"Utilisation", format_quantity(median(utilization), kPercent), "median"});
  }
}

void add_memory(std::span<const StepMetrics> metrics, std::vector<Headline>& out) {
  const auto host = values_of(metrics, &StepMetrics::memory_peak_bytes);
  if (!host.empty()) {
    out.push_back({"Peak memory", format_quantity(std::ranges::max(host), kBytes), "largest rank"});
  }
  const auto device = values_of(metrics, &StepMetrics::device_peak_bytes);
  if (!device.empty()) {
    out.push_back(
        {"Peak device memory", format_quantity(std::ranges::max(device), kBytes), "largest rank"});
  }
}

// Replaces spaces by no-break spaces.
std::string without_breaks(std::string_view text) {
  std::string joined;
  for (const char character : text) {
    if (character == ' ') {
      joined += "\u00A0";
    } else {
      joined += character;
    }
  }
  return joined;
}

// Adds the bytes that a step sends over all axes. The note lists the axes, because they may use
// different links.
void add_traffic(std::span<const StepMetrics> metrics, std::vector<Headline>& out) {
  std::map<std::string, std::vector<double>> by_axis;
  for (const StepMetrics& step : metrics) {
    for (const auto& [axis, bytes] : step.bytes_sent) by_axis[axis].push_back(bytes);
  }
  std::vector<std::pair<double, std::string>> largest_first;
  double sum = 0;
  for (auto& [axis, bytes] : by_axis) {
    largest_first.emplace_back(median(std::move(bytes)), axis);
    sum += largest_first.back().first;
  }
  std::ranges::sort(largest_first, std::greater());
  std::string note;
  for (const auto& [bytes, axis] : largest_first) {
    const std::string item = fmt::format("{} {}", axis, format_quantity(bytes, kBytes));
    note += (note.empty() ? "" : ", ") + without_breaks(item);
  }
  if (!note.empty()) out.push_back({"Sent a step", format_quantity(sum, kBytes), note});
}

void add_time(std::span<const StepMetrics> metrics, std::vector<Headline>& out) {
  const auto seconds = values_of(metrics, &StepMetrics::step_seconds);
  if (seconds.empty()) return;
  out.push_back({"Time in steps", format_seconds(sum_of(metrics, &StepMetrics::step_seconds)),
                 fmt::format("{} a step", format_seconds(median(seconds)))});
  const double evaluations = sum_of(metrics, &StepMetrics::evaluation_seconds);
  if (evaluations > 0) {
    out.push_back(
        {"Time in evaluations", format_seconds(evaluations),
         fmt::format("{} of them", values_of(metrics, &StepMetrics::evaluation_seconds).size())});
  }
}

}  // namespace

double median(std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (values.empty()) return StepMetrics::kMissing;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

std::vector<Headline> headlines(std::span<const StepMetrics> metrics) {
  std::vector<Headline> out;
  add_task_metric(metrics, "Reward", "reward", kNumber, out);
  add_losses(metrics, out);
  add_validation(metrics, out);
  add_task_metric(metrics, "Margin", "rewards/margins", kNumber, out);
  add_task_metric(metrics, "Accuracy", "rewards/accuracies", kPercent, out);
  add_task_metric(metrics, "Accuracy", "accuracy", kPercent, out);
  add_speed(metrics, out);
  add_time(metrics, out);
  add_memory(metrics, out);
  add_traffic(metrics, out);
  return out;
}

}  // namespace colossal::report
