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

  // Returns where a value lies on the axis: 0 at `low`, 1 at `high`; not clamped.
  double position(double value) const;
};

// Whether a chart can show the value: finite, and of a magnitude at which differences are finite,
// too. Charts show other values as gaps.
bool is_plottable(double value);

// Returns the multiples of a step within [low, high]. The step is 1, 2 or 5 times a power of ten,
// at least smallest_step (1 for whole numbers), and divides the range into at most `at_most`
// intervals.
std::vector<double> linear_ticks(double low, double high, int at_most, double smallest_step = 0);

// Returns the powers of ten within [low, high], thinned out to about `at_most`. If there are fewer
// than three, returns their multiples by 1, 2 and 5; if these are still fewer than three,
// linear_ticks(). Requires 0 < low < high.
std::vector<double> logarithmic_ticks(double low, double high, int at_most);

// Returns a vertical axis for values from low to high (low <= high; low > 0 if logarithmic). A
// linear axis is widened to multiples of the tick step, a logarithmic axis by a small margin.
Axis value_axis(double low, double high, AxisScale scale, const Unit& unit);

// Returns a horizontal axis from exactly `low` to `high` (wider if they are equal). whole: ticks at
// whole numbers only.
Axis horizontal_axis(double low, double high, bool whole);

}  // namespace colossal::report
