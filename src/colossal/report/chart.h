// Draws charts as HTML figures with inline SVG, for the report of a run (run_report.h). The figures
// need no libraries and no external resources, and are legible without JavaScript. A figure takes
// the width of the page: the drawing is stretched, except stroke widths, and text keeps its size.
//
// The figures must be part of a page that html_page() (page.h) returns: the page has the style
// sheet, with light and dark colors, and the script that shows values under the pointer.
#pragma once

#include <string>
#include <vector>

#include "colossal/report/axis.h"
#include "colossal/report/quantity.h"

namespace colossal::report {

enum class ChartForm {
  line,  // one line per series; a gap interrupts the line
  // In the stacked forms, a series counts as 0 at its gaps, and at each x that only other series
  // have.
  stacked_area,  // one area per series, each on top of the areas before it
  stacked_bar,   // one bar per x, with one part per series, stacked
};

// Which values a legend shows until the pointer is on the chart.
enum class LegendValues {
  last,     // of each series
  at_peak,  // at the x where the sum of all series is largest; for stacked forms
};

// A series of values: points (x[i], y[i]).
struct ChartSeries {
  std::string name;       // name in the legend, which shows names if there are several series
  std::vector<double> x;  // ascending, plottable: of magnitude below 1e150 (is_plottable(), axis.h)
  // As long as x. A value that is not plottable, e.g. NaN, is a gap.
  std::vector<double> y;
  bool markers = false;  // for lines: draws a dot at each point, for series of few points
};

struct Chart {
  std::string title = {};
  std::string note = {};        // explanation of the values, shown after the title
  std::string x_name = "step";  // what x counts
  Unit unit = {};               // of the values
  ChartForm form = ChartForm::line;
  // logarithmic: only with ChartForm::line; values <= 0 are gaps.
  AxisScale y_scale = AxisScale::linear;
  LegendValues legend = LegendValues::last;
  bool from_zero = false;  // for lines with a linear axis: the vertical axis includes 0
  // Drawn in the page's seven colors (page.h), in turn.
  std::vector<ChartSeries> series = {};
  int height = 200;  // height of the plot in CSS pixels
};

// Charts of more steps than this show areas in place of bars.
inline constexpr size_t kMostBars = 40;

// Whether any value of the series is plottable (is_plottable(), axis.h).
bool has_values(const ChartSeries& series);

// Returns the chart as HTML: a <figure class="chart">, which says "No data" if no value is
// plottable. A series of more than 4,000 points is downsampled (downsample.h). Throws InternalError
// if the x of a series are not plottable and ascending (equal x may follow each other), or are not
// as many as its y.
std::string chart_figure(const Chart& chart);

}  // namespace colossal::report
