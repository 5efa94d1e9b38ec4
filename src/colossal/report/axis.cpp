#include "colossal/report/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "colossal/base/error.h"

namespace colossal::report {
namespace {

constexpr int kVerticalIntervals = 5;
constexpr int kHorizontalIntervals = 6;
constexpr double kLargestPlottable = 1e150;
constexpr double kSmallestRelativeSpan = 1e-9;  // values with a smaller span count as constant

// Returns the smallest of 1, 2 and 5 times a power of ten that divides `span` into at most
// `at_most` intervals and is at least `smallest_step`.
double nice_step(double span, int at_most, double smallest_step) {
  const double rough = std::max(span / at_most, smallest_step);
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double multiple : {1.0, 2.0, 5.0}) {
    if (multiple * power >= rough * (1 - 1e-9)) return multiple * power;
  }
  return 10 * power;
}

// Adds a margin if the values are constant, so that they are a line within the chart and not an
// empty chart.
std::pair<double, double> widen_if_constant(double low, double high) {
  const double magnitude = std::max(std::abs(low), std::abs(high));
  if (magnitude == 0) return {0, 1};
  if (high - low > kSmallestRelativeSpan * magnitude) return {low, high};
  const double margin = 0.1 * magnitude;
  return {low == 0 ? 0 : low - margin, high == 0 ? 0 : high + margin};
}

// Returns the exponent of the first digit: 2 for 100 to 999.
int decimal_exponent(double value) {
  return static_cast<int>(std::floor(std::log10(std::abs(value)) + 1e-9));
}

// Formats a tick's value. The labels of an axis have the same prefix and the same number of digits
// after the point.
std::string tick_label(double value, double step, const Scaling& scaling, const Unit& unit) {
  const double scaled = value / scaling.divisor;
  if (std::abs(scaled) < 1e-9 * step / scaling.divisor) {
    return "0" + unit_suffix({scaling.divisor, ""}, unit, unit.symbol_on_ticks);
  }
  const int last_digit = decimal_exponent(step / scaling.divisor);
  const bool long_when_fixed = last_digit < -3 || decimal_exponent(scaled) > 5;
  const std::string number =
      long_when_fixed
          ? format_scientific(scaled, std::max(0, decimal_exponent(scaled) - last_digit))
          : fmt::format("{:.{}f}", scaled, std::max(0, -last_digit));
  return number + unit_suffix(scaling, unit, unit.symbol_on_ticks);
}

Axis linear_value_axis(double low, double high, const Unit& unit) {
  const Scaling scaling = scaling_of(std::max(std::abs(low), std::abs(high)), unit);
  // Chooses ticks that are round in the printed unit: in MiB, not in bytes.
  low /= scaling.divisor;
  high /= scaling.divisor;
  const double step = nice_step(high - low, kVerticalIntervals, 0);
  Axis axis;
  low = step * std::floor(low / step + 1e-9);
  high = step * std::ceil(high / step - 1e-9);
  axis.low = low * scaling.divisor;
  axis.high = high * scaling.divisor;
  for (const double tick : linear_ticks(low, high, kVerticalIntervals + 2, step)) {
    const double value = tick * scaling.divisor;
    axis.ticks.push_back({value, tick_label(value, step * scaling.divisor, scaling, unit)});
  }
  return axis;
}

Axis logarithmic_value_axis(double low, double high, const Unit& unit) {
  const double margin = std::pow(high / low, 0.04);
  Axis axis{low / margin, high * margin, AxisScale::logarithmic, {}};
  for (const double tick : logarithmic_ticks(axis.low, axis.high, kVerticalIntervals)) {
    std::string label = format_quantity(tick, unit);
    if (unit.prefixes == Unit::Prefixes::none) {
      label = tick < 1e-3 || tick >= 1e5 ? format_scientific(tick, 0) : fmt::format("{:.4g}", tick);
      label += unit_suffix({}, unit, unit.symbol_on_ticks);
    }
    axis.ticks.push_back({tick, std::move(label)});
  }
  return axis;
}

}  // namespace

double Axis::position(double value) const {
  if (scale == AxisScale::linear) return (value - low) / (high - low);
  return std::log(value / low) / std::log(high / low);
}

bool is_plottable(double value) {
  return std::abs(value) < kLargestPlottable;
}

std::vector<double> linear_ticks(double low, double high, int at_most, double smallest_step) {
  COLOSSAL_CHECK(low < high && at_most > 0, "low {} high {} at_most {}", low, high, at_most);
  const double step = nice_step(high - low, at_most, smallest_step);
  std::vector<double> ticks;
  // Ticks are multiples of the step, because a running sum would accumulate errors.
  const double last = std::floor(high / step + 1e-9);
  for (double i = std::ceil(low / step - 1e-9); i <= last; ++i) ticks.push_back(i * step);
  return ticks;
}

std::vector<double> logarithmic_ticks(double low, double high, int at_most) {
  COLOSSAL_CHECK(0 < low && low < high, "low {} high {}", low, high);
  const int first = static_cast<int>(std::ceil(std::log10(low)));
  const int last = static_cast<int>(std::floor(std::log10(high)));
  const auto collect = [&](std::initializer_list<double> multiples, int from, int stride) {
    std::vector<double> ticks;
    for (int exponent = from; exponent <= last; exponent += stride) {
      for (const double multiple : multiples) {
        const double tick = multiple * std::pow(10, exponent);
        if (tick >= low && tick <= high) ticks.push_back(tick);
      }
    }
    return ticks;
  };
  std::vector<double> ticks = collect({1}, first, 1 + (last - first) / at_most);
  if (ticks.size() < 3) ticks = collect({1, 2, 5}, first - 1, 1);
  if (ticks.size() < 3) ticks = linear_ticks(low, high, at_most);
  return ticks;
}

Axis value_axis(double low, double high, AxisScale scale, const Unit& unit) {
  const auto [wide_low, wide_high] = widen_if_constant(low, high);
  if (scale == AxisScale::logarithmic) return logarithmic_value_axis(wide_low, wide_high, unit);
  return linear_value_axis(wide_low, wide_high, unit);
}

Axis horizontal_axis(double low, double high, bool whole) {
  if (!(high - low > kSmallestRelativeSpan * std::max(std::abs(low), std::abs(high)))) {
    low -= 0.5;
    high += 0.5;
  }
  Axis axis{low, high, AxisScale::linear, {}};
  const double smallest_step = whole ? 1 : 0;
  const Scaling scaling = scaling_of(std::max(std::abs(low), std::abs(high)), kCount);
  const double step = nice_step(high - low, kHorizontalIntervals, smallest_step);
  for (const double tick : linear_ticks(low, high, kHorizontalIntervals, smallest_step)) {
    axis.ticks.push_back({tick, tick_label(tick, step, scaling, kCount)});
  }
  return axis;
}

}  // namespace colossal::report
