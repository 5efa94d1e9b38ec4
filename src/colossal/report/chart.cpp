#include "colossal/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "colossal/report/drawn_series.h"
#include "colossal/report/html.h"

namespace colossal::report {
namespace {

constexpr int kNumColors = 7;
constexpr double kBarShare = 0.8;  // width of a bar, relative to the distance between two bars

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void include(double value) {
    if (std::isnan(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

struct Plot {
  const Chart& chart;
  std::vector<DrawnSeries> series;
  ChartForm form;
  double bar_width = 0;
  PlotBox box;
};

std::string color_class(size_t series) {
  return fmt::format("c{}", series % kNumColors + 1);
}

double smallest_distance(const std::vector<double>& x) {
  double distance = std::numeric_limits<double>::infinity();
  for (size_t i = 1; i < x.size(); ++i) distance = std::min(distance, x[i] - x[i - 1]);
  return std::isfinite(distance) ? distance : 1;
}

bool all_whole(const std::vector<DrawnSeries>& series) {
  return std::ranges::all_of(series, [](const DrawnSeries& one) {
    return std::ranges::all_of(one.x, [](double x) { return x == std::floor(x); });
  });
}

Plot make_plot(const Chart& chart) {
  Plot plot{chart, drawn_series(chart), chart.form, 0, {}};
  Range x, y;
  for (const DrawnSeries& one : plot.series) {
    for (const double value : one.x) x.include(value);
    for (const double value : one.top) y.include(value);
    for (const double value : one.base) y.include(value);
  }
  if (y.empty()) return plot;
  if (chart.from_zero) y.include(0);
  // An area over a single point has no width, so that it is drawn as a bar.
  if (chart.form == ChartForm::stacked_area && x.low == x.high) plot.form = ChartForm::stacked_bar;
  if (plot.form == ChartForm::stacked_bar) {
    const double distance = smallest_distance(plot.series.front().x);
    plot.bar_width = kBarShare * distance;
    x = {x.low - distance / 2, x.high + distance / 2};
  }
  plot.box = {horizontal_axis(x.low, x.high, all_whole(plot.series)),
              value_axis(y.low, y.high, chart.y_scale, chart.unit), chart.height};
  return plot;
}

std::string grid(const Plot& plot) {
  std::string svg = "<g class=\"grid\">";
  for (const Tick& tick : plot.box.y.ticks) {
    const double down = plot.box.down(tick.value);
    svg += fmt::format("<line x2=\"100%\" y1=\"{0:.1f}\" y2=\"{0:.1f}\"/>", down);
    svg += fmt::format("<text class=\"y\" x=\"-8\" y=\"{:.1f}\" dy=\".32em\">{}</text>", down,
                       escape_html(tick.label));
  }
  for (const Tick& tick : plot.box.x.ticks) {
    svg += fmt::format("<text class=\"x\" x=\"{:.2f}%\" y=\"{}\">{}</text>",
                       100 * plot.box.x.position(tick.value), plot.box.height + 18,
                       escape_html(tick.label));
  }
  return svg + "</g>";
}

std::string path_element(const char* kind, size_t series, const std::string& data) {
  if (data.empty()) return "";
  return fmt::format("<path class=\"{} {}\" d=\"{}\"/>", kind, color_class(series), data);
}

std::string paths(const Plot& plot) {
  std::string svg;
  for (size_t i = 0; i < plot.series.size(); ++i) {
    const DrawnSeries& series = plot.series[i];
    switch (plot.form) {
      case ChartForm::line:
        svg += path_element("line", i, line_path(series, plot.box));
        svg += path_element("dots", i, dots_path(series, plot.box));
        break;
      case ChartForm::stacked_area:
        svg += path_element("area", i, area_path(series, plot.box));
        break;
      case ChartForm::stacked_bar:
        svg += path_element("area", i, bar_path(series, plot.box, plot.bar_width));
        break;
    }
  }
  return svg;
}

double last_value(const DrawnSeries& series) {
  const auto last = std::find_if(series.value.rbegin(), series.value.rend(),
                                 [](double value) { return !std::isnan(value); });
  return last == series.value.rend() ? std::numeric_limits<double>::quiet_NaN() : *last;
}

// Returns the value of a series where the sum of all series of a stacked form is largest.
double value_at_peak(const Plot& plot, const DrawnSeries& series) {
  const std::vector<double>& sum = plot.series.back().top;
  const auto peak = std::ranges::max_element(sum);
  return peak == sum.end() ? last_value(series) : series.value[peak - sum.begin()];
}

// Returns the legend: names, colours and values (LegendValues). The script replaces these by the
// values under the pointer.
std::string legend(const Plot& plot) {
  std::string html = "<ul class=\"legend\">";
  const bool has_names = plot.series.size() > 1;
  for (size_t i = 0; i < plot.series.size(); ++i) {
    const DrawnSeries& series = plot.series[i];
    const std::string name =
        has_names ? fmt::format("<span class=\"name\">{}</span> ", escape_html(series.name)) : "";
    const double value = plot.chart.legend == LegendValues::at_peak ? value_at_peak(plot, series)
                                                                    : last_value(series);
    html += fmt::format("<li class=\"{}\">{}<output>{}</output></li>", color_class(i), name,
                        escape_html(format_quantity(value, plot.chart.unit)));
  }
  return html + "</ul>";
}

// Returns the data for the script: for each point, x, the distance from the top (in pixels) and the
// text of its value.
std::string readout_data(const Plot& plot) {
  nlohmann::json all = nlohmann::json::array();
  for (const DrawnSeries& series : plot.series) {
    nlohmann::json x = nlohmann::json::array(), y = x, text = x;
    for (size_t i = 0; i < series.x.size(); ++i) {
      if (std::isnan(series.value[i])) continue;
      x.push_back(series.x[i]);
      y.push_back(std::round(10 * plot.box.down(series.top[i])) / 10);
      text.push_back(format_quantity(series.value[i], plot.chart.unit));
    }
    all.push_back({{"x", std::move(x)}, {"y", std::move(y)}, {"text", std::move(text)}});
  }
  const nlohmann::json data = {{"low", plot.box.x.low},
                               {"high", plot.box.x.high},
                               {"name", replace_invalid_utf8(plot.chart.x_name)},
                               {"series", std::move(all)}};
  return escape_json_for_script(data.dump());
}

std::string drawing(const Plot& plot) {
  std::string cursor = fmt::format("<line class=\"cursor\" y2=\"{}\"/>", plot.box.height);
  for (size_t i = 0; i < plot.series.size(); ++i) {
    cursor += fmt::format("<circle class=\"{}\" r=\"4\"/>", color_class(i));
  }
  return fmt::format(
      "<div class=\"plot\" style=\"height:{0}px\"><svg role=\"img\" aria-label=\"{1}\">{2}"
      "<svg viewBox=\"0 0 {3} {0}\" preserveAspectRatio=\"none\">{4}</svg>"
      "<g class=\"pointer\">{5}</g></svg></div>\n<script type=\"application/json\">{6}</script>\n",
      plot.box.height, escape_html(plot.chart.title), grid(plot), kBoxWidth, paths(plot), cursor,
      readout_data(plot));
}

std::string caption(const Plot& plot, bool has_data) {
  const Chart& chart = plot.chart;
  const std::string symbol = chart.unit.symbol_on_ticks ? "" : chart.unit.symbol;
  const std::string note =
      symbol.empty() || chart.note.empty() ? symbol + chart.note : symbol + ", " + chart.note;
  return fmt::format("<figcaption><b>{}</b> <span class=\"note\">{}</span>{}</figcaption>\n",
                     escape_html(chart.title), escape_html(note),
                     has_data ? "<span class=\"at\"></span>" + legend(plot) : "");
}

}  // namespace

bool has_values(const ChartSeries& series) {
  return std::ranges::any_of(series.y, is_plottable);
}

std::string chart_figure(const Chart& chart) {
  const Plot plot = make_plot(chart);
  const bool has_data = !plot.box.y.ticks.empty();
  return "<figure class=\"chart\">\n" + caption(plot, has_data) +
         (has_data ? drawing(plot) : "<p class=\"empty\">No data</p>\n") + "</figure>\n";
}

}  // namespace colossal::report
