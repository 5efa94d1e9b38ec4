// Charts as HTML figures with inline SVG, without libraries and external resources, legible without
// JavaScript. A chart takes the width of the page while text keeps its size: the drawing is
// stretched (except stroke widths), and ticks are positioned in percent.
//
// Colors are CSS variables of the page, light and dark. page.h has these variables and the script
// that shows the values under the pointer.
#pragma once

#include <string>
#include <vector>

#include "colossal/report/axis.h"
#include "colossal/report/quantity.h"

namespace colossal::report {

enum class ChartForm {
  line,
  stacked_area,  // series are summed from zero; missing values and gaps count as 0
  stacked_bar,
};

struct ChartSeries {
  std::string name;       // name in the legend
  std::vector<double> x;  // ascending, finite
  // same length as x; a value that is not plottable (NaN) is a gap in the line
  std::vector<double> y;
  bool markers = false;  // draws a dot at each point, for few distant points
};

struct Chart {
  std::string title = {};
  std::string note = {};  // explanation of the numbers, shown after the title
  std::string x_name = "step";
  Unit unit = {};
  ChartForm form = ChartForm::line;
  AxisScale y_scale = AxisScale::linear;  // logarithmic: only for lines; values <= 0 are gaps
  bool from_zero = false;                 // for lines: the axis starts at zero
  std::vector<ChartSeries> series = {};   // the first seven have distinct colors
  int height = 200;                       // height of the plot in CSS pixels
};

// Returns a <figure class="chart">. With more points than pixels, draws the first, lowest, highest
// and last point of each of 1,000 columns.
std::string chart_figure(const Chart& chart);

}  // namespace colossal::report
