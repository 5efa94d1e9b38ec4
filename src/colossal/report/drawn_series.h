// A chart's series as they are drawn (gaps marked, stacked, downsampled), and their SVG path data
// in a box of width kBoxWidth and the chart's height.
#pragma once

#include <string>
#include <vector>

#include "colossal/report/chart.h"

namespace colossal::report {

inline constexpr int kBoxWidth = 1000;

struct DrawnSeries {
  std::string name;
  bool markers = false;
  std::vector<double> x;
  std::vector<double> value;  // of the series itself, shown under the pointer; NaN: a gap
  std::vector<double> top;    // y of the line, or of the upper edge of the area
  std::vector<double> base;   // y of the lower edge of the area; empty for lines
};

// Returns the chart's series in order. x must be ascending and plottable, and as long as y.
std::vector<DrawnSeries> drawn_series(const Chart& chart);

// Maps values to coordinates in the box.
struct PlotBox {
  Axis x;
  Axis y;
  int height;

  double left(double x_value) const { return kBoxWidth * x.position(x_value); }
  // distance from the top
  double down(double y_value) const { return height * (1 - y.position(y_value)); }
};

// Return SVG path data ("M1,2L3,4..."). In line_path(), a point between two gaps draws nothing;
// dots_path() draws a dot there or, with `markers`, at all points. bar_width: in units of x.
std::string line_path(const DrawnSeries& series, const PlotBox& box);
std::string dots_path(const DrawnSeries& series, const PlotBox& box);
std::string area_path(const DrawnSeries& series, const PlotBox& box);
std::string bar_path(const DrawnSeries& series, const PlotBox& box, double bar_width);

}  // namespace colossal::report
