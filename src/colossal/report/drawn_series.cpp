#include "colossal/report/drawn_series.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "colossal/base/error.h"
#include "colossal/report/downsample.h"

namespace colossal::report {
namespace {

constexpr double kGap = std::numeric_limits<double>::quiet_NaN();

bool is_shown(double value, AxisScale scale) {
  return is_plottable(value) && (scale == AxisScale::linear || value > 0);
}

std::vector<double> pick(const std::vector<double>& values, const std::vector<size_t>& indices) {
  std::vector<double> picked;
  picked.reserve(indices.size());
  for (const size_t index : indices) picked.push_back(values[index]);
  return picked;
}

DrawnSeries drawn_line(const ChartSeries& series, AxisScale scale) {
  std::vector<double> values = series.y;
  for (double& value : values) value = is_shown(value, scale) ? value : kGap;
  const std::vector<size_t> kept = min_max_indices(series.x, values, kBoxWidth);
  const std::vector<double> y = pick(values, kept);
  return {series.name, series.markers, pick(series.x, kept), y, y, {}};
}

// Returns the x of all series in ascending order, without repetitions.
std::vector<double> union_of_x(const std::vector<ChartSeries>& all_series) {
  std::vector<double> x;
  for (const ChartSeries& series : all_series) {
    const auto middle = x.insert(x.end(), series.x.begin(), series.x.end());
    std::inplace_merge(x.begin(), middle, x.end());
    x.erase(std::unique(x.begin(), x.end()), x.end());
  }
  return x;
}

// Returns the series' value at each of `x`; 0 if it has none there.
std::vector<double> values_at(const ChartSeries& series, const std::vector<double>& x) {
  std::vector<double> values(x.size(), 0);
  for (size_t i = 0; i < series.x.size(); ++i) {
    const auto place = std::lower_bound(x.begin(), x.end(), series.x[i]) - x.begin();
    if (is_plottable(series.y[i])) values[place] = series.y[i];
  }
  return values;
}

std::vector<DrawnSeries> stacked(const Chart& chart) {
  const std::vector<double> x = union_of_x(chart.series);
  std::vector<DrawnSeries> layers;
  std::vector<double> total(x.size(), 0);
  for (const ChartSeries& series : chart.series) {
    DrawnSeries layer{series.name, false, x, values_at(series, x), {}, total};
    for (size_t i = 0; i < x.size(); ++i) total[i] += layer.value[i];
    layer.top = total;
    layers.push_back(std::move(layer));
  }
  // Keeps the same points of all layers: those that keep the shape of their sum.
  const std::vector<size_t> kept = min_max_indices(x, total, kBoxWidth);
  for (DrawnSeries& layer : layers) {
    for (auto* values : {&layer.x, &layer.value, &layer.top, &layer.base}) {
      *values = pick(*values, kept);
    }
  }
  return layers;
}

std::string point(char command, double left, double down) {
  return fmt::format("{}{:.1f},{:.1f}", command, left, down);
}

}  // namespace

std::vector<DrawnSeries> drawn_series(const Chart& chart) {
  for (const ChartSeries& series : chart.series) {
    COLOSSAL_CHECK(series.x.size() == series.y.size(), "series \"{}\": {} x, {} y", series.name,
                   series.x.size(), series.y.size());
    COLOSSAL_CHECK(std::is_sorted(series.x.begin(), series.x.end()) &&
                       std::all_of(series.x.begin(), series.x.end(), is_plottable),
                   "series \"{}\": x must be finite and ascend", series.name);
  }
  if (chart.form != ChartForm::line) return stacked(chart);
  std::vector<DrawnSeries> lines;
  for (const ChartSeries& series : chart.series) lines.push_back(drawn_line(series, chart.y_scale));
  return lines;
}

std::string line_path(const DrawnSeries& series, const PlotBox& box) {
  std::string path;
  bool pen_down = false;
  for (size_t i = 0; i < series.x.size(); ++i) {
    const bool is_gap = std::isnan(series.top[i]);
    if (!is_gap)
      path += point(pen_down ? 'L' : 'M', box.left(series.x[i]), box.down(series.top[i]));
    pen_down = !is_gap;
  }
  return path;
}

std::string dots_path(const DrawnSeries& series, const PlotBox& box) {
  const auto is_gap = [&](size_t i) { return i >= series.top.size() || std::isnan(series.top[i]); };
  std::string path;
  for (size_t i = 0; i < series.x.size(); ++i) {
    if (is_gap(i)) continue;
    const bool alone = (i == 0 || is_gap(i - 1)) && is_gap(i + 1);
    // A dot is a line of no length with round caps.
    if (series.markers || alone) {
      path += point('M', box.left(series.x[i]), box.down(series.top[i])) + "h0";
    }
  }
  return path;
}

std::string area_path(const DrawnSeries& series, const PlotBox& box) {
  std::string path;
  for (size_t i = 0; i < series.x.size(); ++i) {
    path += point(i == 0 ? 'M' : 'L', box.left(series.x[i]), box.down(series.top[i]));
  }
  for (size_t i = series.x.size(); i-- > 0;) {
    path += point('L', box.left(series.x[i]), box.down(series.base[i]));
  }
  return path + "Z";
}

std::string bar_path(const DrawnSeries& series, const PlotBox& box, double bar_width) {
  std::string path;
  for (size_t i = 0; i < series.x.size(); ++i) {
    const double left = box.left(series.x[i] - bar_width / 2);
    const double right = box.left(series.x[i] + bar_width / 2);
    path += point('M', left, box.down(series.base[i])) + fmt::format("V{:.1f}H{:.1f}V{:.1f}Z",
                                                                     box.down(series.top[i]), right,
                                                                     box.down(series.base[i]));
  }
  return path;
}

}  // namespace colossal::report
