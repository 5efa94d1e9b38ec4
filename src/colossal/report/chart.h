// Charts as HTML figures with inline SVG: no library, no external resource, legible without
// JavaScript. Widths follow the page and text keeps its size, from a telephone to a wide screen:
// the drawing is stretched (with strokes that are not), ticks stand at percentages.
//
// Colours are the CSS variables of the page, light and dark; page.h has them, and the script that
// shows the values under the pointer.
#pragma once

#include <string>
#include <vector>

#include "colossal/report/axis.h"
#include "colossal/report/quantity.h"

namespace colossal::report {

enum class ChartForm {
  line,
  stacked_area,  // stacked: series add up, from zero; a value that is missing or a gap counts as 0
  stacked_bar,
};

struct ChartSeries {
  std::string name;       // in the legend
  std::vector<double> x;  // ascending, finite
  std::vector<double> y;  // as many; a value that is not plottable (NaN) is a gap in the line
  bool markers = false;   // a dot at each point: for few points that are far apart
};

struct Chart {
  std::string title = {};
  std::string note = {};  // what the numbers mean, after the title
  std::string x_name = "step";
  Unit unit = {};
  ChartForm form = ChartForm::line;
  AxisScale y_scale = AxisScale::linear;  // logarithmic: lines only; values <= 0 are gaps
  bool from_zero = false;                 // lines: the axis starts at zero
  std::vector<ChartSeries> series = {};   // the first seven have colours of their own
  int height = 200;                       // of the plot, in CSS pixels
};

// A <figure class="chart">. With more points than pixels (1,000 columns), of each column the first,
// lowest, highest and last are drawn.
std::string chart_figure(const Chart& chart);

}  // namespace colossal::report
