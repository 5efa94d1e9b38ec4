// An axis of a chart: its range and its ticks with labels.
#pragma once

#include <string>
#include <vector>

#include "colossal/report/quantity.h"

namespace colossal::report {

enum class AxisScale { linear, logarithmic };

struct Tick {
  double value;
  std::string label;
};

struct Axis {
  double low = 0;  // low < high; both > 0 if logarithmic
  double high = 1;
  AxisScale scale = AxisScale::linear;
  std::vector<Tick> ticks;  // within [low, high], ascending

  // Returns 0 at `low` and 1 at `high`; outside [0, 1] for values outside the range.
  double position(double value) const;
};

// Whether a chart can show the value: finite, and so small that differences of two values are
// finite too. Charts show other values as gaps.
bool is_plottable(double value);

// Returns multiples of 1, 2 or 5 times a power of ten within [low, high], at most `at_most`
// intervals. smallest_step: least distance of two ticks (1 for whole numbers).
std::vector<double> linear_ticks(double low, double high, int at_most, double smallest_step = 0);

// Returns powers of ten within [low, high], thinned out to about `at_most`. With fewer than three,
// adds their multiples by 2 and 5; if still fewer than three, returns linear_ticks(). low > 0.
std::vector<double> logarithmic_ticks(double low, double high, int at_most);

// Returns a vertical axis for values from low to high (low <= high). A linear axis is widened to
// multiples of the tick step.
Axis value_axis(double low, double high, AxisScale scale, const Unit& unit);

// Returns a horizontal axis from exactly `low` to `high`. whole: ticks at whole numbers only.
Axis horizontal_axis(double low, double high, bool whole);

}  // namespace colossal::report
