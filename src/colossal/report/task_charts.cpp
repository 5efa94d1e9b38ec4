#include "colossal/report/task_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

namespace colossal::report {
namespace {

using Metrics = std::vector<StepMetrics>;

// A line of a chart: its name, and the metric that it shows.
using Line = std::pair<const char*, const char*>;

struct Description {
  const char* title;
  const char* note;
  Unit unit;
  bool from_zero;
  std::vector<Line> lines;
  bool hides_zeros = false;  // no chart if all values are 0
};

// In the order of the page.
const std::vector<Description>& descriptions() {
  static const std::vector<Description> all{
      {"Rewards of pairs",
       "how much likelier a completion became, beside the reference",
       kNumber,
       true,
       {{"chosen", "rewards/chosen"}, {"rejected", "rewards/rejected"}}},
      {"Margin",
       "reward of chosen less that of rejected",
       kNumber,
       true,
       {{"margin", "rewards/margins"}, {"margin", "margin"}}},
      {"Accuracy",
       "how often the better one has the higher reward, or the label or text is right",
       kPercent,
       true,
       {{"accuracy", "rewards/accuracies"}, {"accuracy", "accuracy"}}},
      {"Mean reward", "of chosen and rejected", kNumber, false, {{"mean reward", "mean_reward"}}},
      {"Log-probability",
       "of a completion; if both fall far, the model forgets how to write",
       kNumber,
       false,
       {{"chosen", "logps/chosen"}, {"rejected", "logps/rejected"}}},
      {"Log-odds ratio", "of chosen to rejected", kNumber, true, {{"ratio", "log_odds_ratio"}}},
      {"Loss of chosen completions", "per token", kNumber, false, {{"loss", "nll_loss"}}},
      {"KL divergence", "from the reference model", kNumber, true, {{"KL", "kl"}}},
      {"Entropy",
       "of the sampled tokens; near 0, completions no longer vary",
       kNumber,
       true,
       {{"entropy", "entropy"}}},
      {"Length of completions",
       "tokens",
       kCount,
       true,
       {{"mean", "completions/mean_length"},
        {"longest", "completions/max_length"},
        {"shortest", "completions/min_length"}}},
      {"Cut off",
       "completions that reached the maximum length",
       kPercent,
       true,
       {{"cut off", "completions/clipped_ratio"}}},
      {"Groups with equal rewards",
       "nothing is learned from them",
       kPercent,
       true,
       {{"groups", "frac_reward_zero_std"}}},
      {"Clipped",
       "tokens whose ratio of new to old probability was clipped",
       kPercent,
       true,
       {{"below", "clip_ratio/low_mean"},
        {"above", "clip_ratio/high_mean"},
        {"policy", "policy/clipfrac_avg"},
        {"value", "val/clipfrac_avg"}},
       true},
      {"Losses of policy and value",
       "",
       kNumber,
       false,
       {{"policy", "loss/policy_avg"}, {"value", "loss/value_avg"}}},
      {"Sampler and trainer",
       "difference of their log-probabilities",
       kNumber,
       true,
       {{"mean", "sampling/sampling_logp_difference/mean"},
        {"largest", "sampling/sampling_logp_difference/max"}}},
      {"Rewards that failed", "in all", kCount, true, {{"failures", "rewards/failures"}}, true},
      {"Router load",
       "rows of the busiest expert of any layer over the mean",
       kNumber,
       true,
       {{"router load", "router_load"}}},
      {"Sampling",
       "of the first rank, with rewards",
       kSeconds,
       true,
       {{"in all", "sampling/seconds"}, {"while passes ran", "sampling/overlapped_seconds"}}},
  };
  return all;
}

Chart chart_of(const Metrics& metrics, const Description& description) {
  Chart chart{.title = description.title,
              .note = description.note,
              .unit = description.unit,
              .from_zero = description.from_zero};
  for (const auto& [name, metric] : description.lines) {
    ChartSeries series = series_of_task(metrics, name, metric);
    if (has_values(series)) chart.series.push_back(std::move(series));
  }
  const auto is_zero = [](const ChartSeries& series) {
    return std::ranges::all_of(series.y, [](double value) { return value == 0; });
  };
  if (description.hides_zeros && std::ranges::all_of(chart.series, is_zero)) chart.series.clear();
  return chart;
}

// The sum of the rewards, and each reward if there are several.
Chart reward_chart(const Metrics& metrics) {
  constexpr std::string_view kBegin = "rewards/", kEnd = "/mean";
  Chart chart{.title = "Reward", .note = "mean of the sampled completions", .height = 300};
  chart.series.push_back(series_of_task(metrics, "reward", "reward"));
  std::set<std::string> names;
  for (const StepMetrics& step : metrics) {
    for (const auto& [name, value] : step.task_metrics) {
      if (name.starts_with(kBegin) && name.ends_with(kEnd)) names.insert(name);
    }
  }
  if (names.size() < 2) return chart;
  for (const std::string& name : names) {
    chart.series.push_back(series_of_task(
        metrics, name.substr(kBegin.size(), name.size() - kBegin.size() - kEnd.size()), name));
  }
  return chart;
}

// For runs that sample completions during updates: shares of tokens by staleness, i.e. by how many
// generations the weights that sampled a token were older than the model.
Chart staleness_chart(const Metrics& metrics) {
  Chart chart{
      .title = "Staleness",
      .note = "shares of the tokens learned from, by generations",
      .unit = kPercent,
      .form = metrics.size() <= kMostBars ? ChartForm::stacked_bar : ChartForm::stacked_area};
  for (int64_t staleness = 0;; ++staleness) {
    const std::string name = fmt::format("{}", staleness);
    ChartSeries series = series_of_task(metrics, name, "staleness/" + name);
    if (series.x.empty()) return chart;
    chart.series.push_back(std::move(series));
  }
}

}  // namespace

ChartSeries series_of_task(const Metrics& metrics, const std::string& name,
                           const std::string& metric) {
  ChartSeries series{.name = name};
  for (const StepMetrics& step : metrics) {
    const auto found = step.task_metrics.find(metric);
    if (found == step.task_metrics.end()) continue;
    series.x.push_back(static_cast<double>(step.step));
    series.y.push_back(found->second);
  }
  return series;
}

std::vector<Chart> task_charts(const Metrics& metrics) {
  std::vector<Chart> charts{reward_chart(metrics)};
  for (const Description& description : descriptions()) {
    charts.push_back(chart_of(metrics, description));
  }
  charts.push_back(staleness_chart(metrics));
  std::erase_if(charts,
                [](const Chart& chart) { return std::ranges::none_of(chart.series, has_values); });
  return charts;
}

bool learns_from_rewards(const Metrics& metrics) {
  return has_values(series_of_task(metrics, "", "reward"));
}

}  // namespace colossal::report
