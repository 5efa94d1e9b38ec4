// Axes of charts: chooses the range of an axis, and its ticks with labels. Used by chart.h and
// timeline.h.
#pragma once

#include <string>
#include <vector>

#include "colossal/report/quantity.h"

namespace colossal::report {

enum class AxisScale { linear, logarithmic };

struct Tick {
  double value;       // in the units of the data
  std::string label;  // the value as text, with prefix and unit
};

struct Axis {
  // Range of the axis: low < high. If logarithmic, both are above 0.
  double low = 0;
  double high = 1;
  AxisScale scale = AxisScale::linear;
  std::vector<Tick> ticks;  // within [low, high], ascending

  // Returns the position of a value on the axis: 0 at `low`, 1 at `high`; outside [0, 1] for values
  // outside the range. On a logarithmic axis, the value must be above 0.
  double position(double value) const;
};

// Whether a chart can show the value: the magnitude is below 1e150, so that differences of values
// do not overflow. Charts show other values, NaN included, as gaps.
bool is_plottable(double value);

// Returns the multiples of a step within [low, high], ascending. The step is the smallest number
// that is 1, 2 or 5 times a power of ten, is at least smallest_step, and divides the range into at
// most `at_most` intervals. smallest_step: 1 for ticks at whole numbers only; 0: no limit. Throws
// InternalError unless low < high and at_most > 0.
std::vector<double> linear_ticks(double low, double high, int at_most, double smallest_step = 0);

// Returns ticks for a logarithmic axis, ascending: at most `at_most` (above 0) powers of ten within
// [low, high], evenly spaced. If these would be fewer than three ticks, returns all numbers within
// the range that are 1, 2 or 5 times a power of ten; if these are fewer than three, too, returns
// linear_ticks(low, high, at_most). Throws InternalError unless 0 < low < high.
std::vector<double> logarithmic_ticks(double low, double high, int at_most);

// Returns a vertical axis with ticks for values from low to high (low <= high; low > 0 if
// logarithmic). The range of a linear axis is widened to multiples of the tick step, that of a
// logarithmic axis by a small margin. If low and high are equal or almost equal, the range is
// first widened by a tenth of the value on either side; to [0, 1] if both are 0. unit: for the
// labels. The ticks of a linear axis are round numbers in the printed unit: in MiB, not in bytes.
Axis value_axis(double low, double high, AxisScale scale, const Unit& unit);

// Returns a linear horizontal axis with the range [low, high]; with [low - 0.5, high + 0.5] if the
// two are equal or almost equal. The ticks lie within the range. Their labels are counts with
// decimal prefixes (kCount, quantity.h). whole: ticks at whole numbers only.
Axis horizontal_axis(double low, double high, bool whole);

}  // namespace colossal::report
