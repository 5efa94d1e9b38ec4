// The scale of one side of a chart: the range that it shows, where its ticks stand and what they
// say.
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
  double low = 0;  // low < high; both > 0 where logarithmic
  double high = 1;
  AxisScale scale = AxisScale::linear;
  std::vector<Tick> ticks;  // within [low, high], ascending

  // 0 at low, 1 at high; outside of [0, 1] for values outside.
  double position(double value) const;
};

// Whether a chart can show the value: finite, and far enough from the largest double that
// differences of two of them are finite too. Others are gaps.
bool is_plottable(double value);

// Multiples of 1, 2 or 5 times a power of ten within [low, high]: as many as fit `at_most`
// intervals. The step is no smaller than `smallest_step` (1 where only whole numbers make sense).
std::vector<double> linear_ticks(double low, double high, int at_most, double smallest_step = 0);

// Powers of ten within [low, high], thinned out to about `at_most`; where that leaves fewer than
// three, also their 2- and 5-fold; where that does too, linear_ticks. low > 0.
std::vector<double> logarithmic_ticks(double low, double high, int at_most);

// The vertical axis over values from low to high (low <= high): widened to whole ticks where
// linear.
Axis value_axis(double low, double high, AxisScale scale, const Unit& unit);

// The horizontal axis, exactly from low to high; `whole`: ticks at whole numbers only.
Axis horizontal_axis(double low, double high, bool whole);

}  // namespace colossal::report
