// Draws charts as HTML figures with inline SVG. They need no libraries and no external resources,
// and are legible without JavaScript. A chart takes the width of the page while its text keeps its
// size: the drawing is stretched (except stroke widths), and ticks are positioned in percent.
//
// Colors are CSS variables of the page, light and dark. page.h provides these variables and the
// script that shows the values under the pointer.
#pragma once

#include <string>
#include <vector>

#include "colossal/report/axis.h"
#include "colossal/report/quantity.h"

namespace colossal::report {

enum class ChartForm {
  line,
  stacked_area,  // each series on top of those before it; gaps count as 0
  stacked_bar,   // likewise
};

struct ChartSeries {
  std::string name;       // name in the legend
  std::vector<double> x;  // ascending, finite
  // As long as x. A value that is not plottable (see axis.h) is a gap in the line.
  std::vector<double> y;
  bool markers = false;  // draws a dot at each point, for series of few points
};

struct Chart {
  std::string title = {};
  std::string note = {};  // explanation of the numbers, shown after the title
  std::string x_name = "step";
  Unit unit = {};
  ChartForm form = ChartForm::line;
  AxisScale y_scale = AxisScale::linear;  // logarithmic: for lines only; values <= 0 are gaps
  bool from_zero = false;                 // for lines: the axis starts at zero
  std::vector<ChartSeries> series = {};   // the first seven have distinct colors
  int height = 200;                       // height of the plot in CSS pixels
};

// Returns a <figure class="chart">. Series of more than 4,000 points are downsampled to 1,000
// columns (downsample.h).
std::string chart_figure(const Chart& chart);

}  // namespace colossal::report
