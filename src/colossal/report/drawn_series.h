// A chart's series as they are drawn: gaps marked, stacked where asked, downsampled; and their SVG
// path data in a box of kBoxWidth by the chart's height.
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
  std::vector<double> value;  // what the reader is told; NaN: a gap
  std::vector<double> top;    // where the line, or the upper edge of the area, runs
  std::vector<double> base;   // lower edge of the area; empty for lines
};

std::vector<DrawnSeries> drawn_series(const Chart& chart);

struct PlotBox {
  Axis x;
  Axis y;
  int height;

  double left(double x_value) const { return kBoxWidth * x.position(x_value); }
  double down(double y_value) const { return height * (1 - y.position(y_value)); }  // from above
};

// Path data ("M1,2L3,4..."). A point between two gaps has no line; it is a dot.
std::string line_path(const DrawnSeries& series, const PlotBox& box);
std::string dots_path(const DrawnSeries& series, const PlotBox& box);
std::string area_path(const DrawnSeries& series, const PlotBox& box);
std::string bar_path(const DrawnSeries& series, const PlotBox& box, double bar_width);

}  // namespace colossal::report
