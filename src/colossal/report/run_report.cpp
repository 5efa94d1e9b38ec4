#include "colossal/report/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "colossal/base/base64.h"
#include "colossal/base/units.h"
#include "colossal/io/file.h"
#include "colossal/report/chart.h"
#include "colossal/report/headline.h"
#include "colossal/report/html.h"
#include "colossal/report/load_map.h"
#include "colossal/report/output_file.h"
#include "colossal/report/page.h"
#include "colossal/report/task_charts.h"

namespace colossal::report {
namespace {

using Field = double StepMetrics::*;
using Metrics = std::vector<StepMetrics>;

constexpr size_t kMostMarkers = 60;  // with more points, a line has no dots
// Ratio of largest to smallest value above which the axis is logarithmic.
constexpr double kLogarithmicFrom = 30;
constexpr size_t kMostSkippedNamed = 8;

// Returns the field at all steps; steps without a value are gaps.
ChartSeries series_of(const Metrics& metrics, const char* name, Field field) {
  ChartSeries series{name, {}, {}};
  for (const StepMetrics& step : metrics) {
    series.x.push_back(static_cast<double>(step.step));
    series.y.push_back(step.*field);
  }
  return series;
}

// Returns the field at the steps that have a value, which a line joins.
ChartSeries sparse_series_of(const Metrics& metrics, const char* name, Field field) {
  ChartSeries series{name, {}, {}};
  for (const StepMetrics& step : metrics) {
    if (!std::isfinite(step.*field)) continue;
    series.x.push_back(static_cast<double>(step.step));
    series.y.push_back(step.*field);
  }
  series.markers = series.x.size() <= kMostMarkers;
  return series;
}

AxisScale fitting_scale(const ChartSeries& series) {
  double low = INFINITY, high = 0;
  for (const double value : series.y) {
    if (!is_plottable(value) || value <= 0) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  return high > kLogarithmicFrom * low ? AxisScale::logarithmic : AxisScale::linear;
}

Chart loss_chart(const Metrics& metrics) {
  Chart chart{.title = "Loss", .note = "mean over the global batch", .height = 300};
  chart.series.push_back(series_of(metrics, "training", &StepMetrics::loss));
  chart.y_scale = fitting_scale(chart.series.front());
  ChartSeries validation = sparse_series_of(metrics, "validation", &StepMetrics::validation_loss);
  if (has_values(validation)) chart.series.push_back(std::move(validation));
  return chart;
}

Chart gradient_chart(const Metrics& metrics) {
  Chart chart{.title = "Gradient norm", .note = "before clipping"};
  chart.series.push_back(series_of(metrics, "gradient norm", &StepMetrics::grad_norm));
  chart.y_scale = fitting_scale(chart.series.front());
  chart.from_zero = chart.y_scale == AxisScale::linear;
  return chart;
}

Chart chart_from_zero(const Metrics& metrics, Chart chart, Field field) {
  chart.from_zero = true;
  chart.series.push_back(series_of(metrics, chart.title.c_str(), field));
  return chart;
}

bool has_images(const Metrics& metrics) {
  return std::ranges::any_of(metrics,
                             [](const StepMetrics& step) { return std::isfinite(step.images); });
}

Chart throughput_chart(const Metrics& metrics) {
  const bool images = has_images(metrics);
  return chart_from_zero(
      metrics,
      {.title = "Throughput",
       .note = "without evaluations",
       .unit = images ? kImagesPerSecond : kTokensPerSecond},
      images ? &StepMetrics::images_per_second : &StepMetrics::tokens_per_second);
}

Chart memory_chart(const Metrics& metrics) {
  Chart chart{.title = "Peak memory", .note = "largest rank", .unit = kBytes, .from_zero = true};
  for (auto& series : {series_of(metrics, "host", &StepMetrics::memory_peak_bytes),
                       series_of(metrics, "device", &StepMetrics::device_peak_bytes)}) {
    if (has_values(series)) chart.series.push_back(series);
  }
  return chart;
}

Chart traffic_chart(const Metrics& metrics) {
  Chart chart{.title = "Bytes sent a step", .note = "largest rank", .unit = kBytes};
  chart.form = metrics.size() <= kMostBars ? ChartForm::stacked_bar : ChartForm::stacked_area;
  std::map<std::string, ChartSeries> by_axis;
  for (const StepMetrics& step : metrics) {
    for (const auto& [axis, bytes] : step.bytes_sent) {
      ChartSeries& series = by_axis[axis];
      series.name = axis;
      series.x.push_back(static_cast<double>(step.step));
      series.y.push_back(bytes);
    }
  }
  for (auto& [axis, series] : by_axis) chart.series.push_back(std::move(series));
  return chart;
}

Chart step_memory_chart(const std::vector<ChartSeries>& step_memory) {
  return {
      .title = "Memory over a step",
      .note = "tensors of rank 0 in this run's second step, in milliseconds; values at the peak",
      .x_name = "at ms",
      .unit = kBytes,
      .form = ChartForm::stacked_area,
      .legend = LegendValues::at_peak,
      .series = step_memory,
      .height = 260};
}

std::string charts_section(const RunReport& report) {
  const Metrics& metrics = report.metrics;
  // What a method is about comes first: a loss that follows from rewards says little.
  std::vector<Chart> charts = task_charts(metrics);
  const auto place = learns_from_rewards(metrics) ? charts.end() : charts.begin();
  charts.insert(place, loss_chart(metrics));
  for (const Chart& chart : {
           gradient_chart(metrics),
           chart_from_zero(metrics, {.title = "Learning rate"}, &StepMetrics::learning_rate),
           throughput_chart(metrics),
           chart_from_zero(
               metrics,
               {.title = "Utilisation",
               .note = "model FLOPs over the rate of matrix products measured at the start",
               .unit = kPercent},
               &StepMetrics::model_flops_utilization),
           memory_chart(metrics),
           traffic_chart(metrics),
           step_memory_chart(report.step_memory),
       }) {
    charts.push_back(chart);
  }
  std::string html;
  for (const Chart& chart : charts) {
    if (std::ranges::any_of(chart.series, has_values)) html += chart_figure(chart);
  }
  return html.empty() ? html : "<section class=\"charts\">\n" + html + "</section>\n";
}

std::string headline_section(const Metrics& metrics) {
  std::string html;
  for (const Headline& headline : headlines(metrics)) {
    html += fmt::format("<div><dt>{}</dt><dd><b>{}</b><span>{}</span></dd></div>\n",
                        escape_html(headline.label), escape_html(headline.value),
                        escape_html(headline.note));
  }
  return html.empty() ? html : "<dl class=\"headlines\">\n" + html + "</dl>\n";
}

// Returns a summary such as "500 steps, 4,096,000 tokens. 2 skipped, without an update: 7, 9.".
std::string summary(const Metrics& metrics) {
  if (metrics.empty()) return "No steps yet.";
  const bool images = has_images(metrics);
  double units = 0;
  std::vector<int64_t> skipped;
  for (const StepMetrics& step : metrics) {
    const double read = images ? step.images : step.tokens;
    if (std::isfinite(read)) units += read;
    if (step.skipped) skipped.push_back(step.step);
  }
  std::string text =
      fmt::format("{} step{}, {} {}.", format_count(static_cast<int64_t>(metrics.size())),
                  metrics.size() == 1 ? "" : "s", format_count(std::llround(units)),
                  images ? "images" : "tokens");
  if (skipped.empty()) return text;
  const size_t named = std::min(skipped.size(), kMostSkippedNamed);
  text += fmt::format(" {} skipped, without an update: {}{}.",
                      format_count(static_cast<int64_t>(skipped.size())),
                      fmt::join(skipped.begin(), skipped.begin() + named, ", "),
                      named < skipped.size() ? ", …" : "");
  return text;
}

// Returns the kinds of tensors on the rank with the most bytes, at the step with the most bytes;
// the largest kind first.
std::vector<Fact> memory_at_peak(const Metrics& metrics) {
  const auto counted = [](const StepMetrics& step) {
    return step.memory_by_kind.empty() ? 0 : step.memory_at_peak;
  };
  const auto fullest = std::ranges::max_element(metrics, {}, counted);
  if (fullest == metrics.end() || counted(*fullest) == 0) return {};
  std::vector<std::pair<double, std::string>> kinds;
  for (const auto& [kind, bytes] : fullest->memory_by_kind) {
    if (bytes > 0) kinds.emplace_back(bytes, kind);
  }
  std::ranges::sort(kinds, std::greater());
  std::vector<Fact> facts;
  for (const auto& [bytes, kind] : kinds) {
    facts.push_back(
        {kind, fmt::format("{}, {}", format_quantity(bytes, kBytes),
                           format_quantity(bytes / fullest->memory_at_peak, kPercent))});
  }
  facts.push_back({"tensors in all",
                   fmt::format("{} at step {}", format_quantity(fullest->memory_at_peak, kBytes),
                               fullest->step)});
  facts.push_back(
      {"resident before the model", format_quantity(fullest->memory_base_bytes, kBytes)});
  facts.push_back({"resident at most", format_quantity(fullest->memory_peak_bytes, kBytes)});
  return facts;
}

// Returns the bytes stored in each tier other than the device, and the bytes moved to and from it,
// at the last step.
std::vector<Fact> tier_facts(const Metrics& metrics) {
  if (metrics.empty()) return {};
  std::vector<Fact> facts;
  for (const auto& [tier, of_tier] : metrics.back().tiers) {
    facts.push_back({tier + ", at rest", format_quantity(of_tier.at_rest, kBytes)});
    for (const auto& [kind, moved] : of_tier.moved) {
      facts.push_back({fmt::format("{}, {} a step", tier, kind),
                       fmt::format("{} to it, {} from it", format_quantity(moved.to, kBytes),
                                   format_quantity(moved.from, kBytes))});
    }
  }
  return facts;
}

std::string facts_section(const char* title, const std::vector<Fact>& facts) {
  if (facts.empty()) return "";
  std::string rows;
  for (const Fact& fact : facts) {
    rows += fmt::format("<tr><th scope=\"row\">{}</th><td>{}</td></tr>\n", escape_html(fact.name),
                        escape_html(fact.value));
  }
  return fmt::format("<section><h2>{}</h2>\n<table>\n{}</table></section>\n", title, rows);
}

std::string configuration_section(const std::vector<Setting>& configuration) {
  if (configuration.empty()) return "";
  std::vector<std::string> order;
  std::map<std::string, std::string> rows;
  for (const Setting& setting : configuration) {
    std::string& section_rows = rows[setting.section];
    if (section_rows.empty()) order.push_back(setting.section);
    section_rows += fmt::format(
        "<tr{}><th scope=\"row\">{}</th><td>{}</td><td class=\"source\">{}</td></tr>\n",
        setting.source == "default" ? " class=\"default\"" : "", escape_html(setting.key),
        escape_html(setting.value), escape_html(setting.source));
  }
  std::string html = "<section><h2>Configuration</h2>\n<div class=\"columns\">\n";
  for (const std::string& section : order) {
    html += fmt::format("<table class=\"settings\">\n<caption>{}</caption>\n{}</table>\n",
                        escape_html(section), rows[section]);
  }
  return html + "</div></section>\n";
}

// Browsers find out the kind of an image by its content.
std::string pictures_grid(const std::vector<Picture>& pictures) {
  std::string html = "<div class=\"pictures\">\n";
  for (const Picture& picture : pictures) {
    html += fmt::format(
        "<figure{}><img alt=\"\" "
        "src=\"data:image/png;base64,{}\"><figcaption>{}</figcaption></figure>\n",
        picture.is_wrong ? " class=\"wrong\"" : "", encode_base64(picture.content),
        escape_html(picture.caption));
  }
  return html + "</div>\n";
}

std::string samples_section(const RunReport& report) {
  if (report.samples.empty() && report.pictures.empty()) return "";
  std::string html =
      fmt::format("<section><h2>Samples after step {}</h2>\n", format_count(report.samples_step));
  for (const TextSample& sample : report.samples) {
    html += fmt::format("<pre><b>{}</b>{}</pre>\n", escape_html(sample.prompt),
                        escape_html(sample.completion));
  }
  if (!report.pictures.empty()) html += pictures_grid(report.pictures);
  return html + "</section>\n";
}

}  // namespace

void write_run_report(const std::filesystem::path& html, const RunReport& report) {
  std::string body = fmt::format("<header><h1>{}</h1>\n<p>{}</p></header>\n",
                                 escape_html(report.title), summary(report.metrics));
  body += headline_section(report.metrics);
  body += charts_section(report);
  body += load_map_figure(report.expert_rows);
  body += samples_section(report);
  const std::string facts = facts_section("Model", report.model) +
                            facts_section("Machine", report.machine) +
                            facts_section("Memory at the peak", memory_at_peak(report.metrics)) +
                            facts_section("Memory off the device", tier_facts(report.metrics));
  if (!facts.empty()) body += "<div class=\"facts\">\n" + facts + "</div>\n";
  body += configuration_section(report.configuration);
  io::write_file_atomically(html, html_page(report.title, body));
}

}  // namespace colossal::report
