// Part of chart.h: prepares the series of a chart for drawing (marks gaps, stacks, downsamples),
// and returns their SVG paths. A path is in the coordinates of a box that is kBoxWidth wide and as
// high as the chart.
//
// A series is drawn as a line, or in one of the stacked forms: as an area or as bars, on top of the
// series before it (ChartForm). A gap is a point whose y cannot be drawn, such as NaN.
#pragma once

#include <string>
#include <vector>

#include "colossal/report/chart.h"

namespace colossal::report {

inline constexpr int kBoxWidth = 1000;

// A series as it is drawn. All vectors have one element per point, except `base` of lines.
struct DrawnSeries {
  std::string name;
  bool markers = false;  // ChartSeries::markers: whether dots_path() draws a dot at each point
  std::vector<double> x;
  // y of the series itself, shown under the pointer. At a gap: NaN in a line, 0 in a stacked form.
  std::vector<double> value;
  std::vector<double> top;   // y of the line (NaN: a gap), or of the upper edge of area or bar
  std::vector<double> base;  // y of the lower edge of area or bar; empty for lines
};

// Returns the series of a chart, in order, downsampled. In the stacked forms, all results have the
// same x: those that downsampling keeps of the union of the x of all series. At an x that a series
// does not have, its value is 0. Throws InternalError if the x of a series are not ascending and
// plottable, or are not as many as its y.
std::vector<DrawnSeries> drawn_series(const Chart& chart);

// Maps values to coordinates in the box (SVG: the origin is the upper left corner).
struct PlotBox {
  Axis x;
  Axis y;
  int height;  // of the box

  // distance from the left edge
  double left(double x_value) const { return kBoxWidth * x.position(x_value); }
  // distance from the upper edge
  double down(double y_value) const { return height * (1 - y.position(y_value)); }
};

// The following functions return SVG path data ("M1,2L3,4..."). line_path() and dots_path() are for
// lines; area_path() and bar_path() are for stacked forms, whose series have a `base`.
//
// Returns a line through the points, interrupted at gaps. A single point between two gaps is not
// visible.
std::string line_path(const DrawnSeries& series, const PlotBox& box);
// Returns a dot at each isolated point, i.e. one with a gap or an end of the series on both sides.
// If series.markers, returns a dot at every point that is no gap.
std::string dots_path(const DrawnSeries& series, const PlotBox& box);
// Returns the area between `base` and `top`.
std::string area_path(const DrawnSeries& series, const PlotBox& box);
// Returns a bar from `base` to `top` at each x, which is its center. bar_width: in units of x.
std::string bar_path(const DrawnSeries& series, const PlotBox& box, double bar_width);

}  // namespace colossal::report
