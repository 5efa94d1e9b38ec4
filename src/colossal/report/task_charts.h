// The charts of what a method of tuning is about: rewards, margins, divergences, lengths. Their
// values are in StepMetrics::task_metrics, under TRL's names. Used by write_run_report()
// (run_report.h).
#pragma once

#include <string>
#include <vector>

#include "colossal/report/chart.h"
#include "colossal/report/metrics_log.h"

namespace colossal::report {

// Returns a metric of the task at the steps that have it, as a line named `name`.
ChartSeries series_of_task(const std::vector<StepMetrics>& metrics, const std::string& name,
                           const std::string& metric);

// Returns the charts for which the metrics have values, those to look at first in front. Empty for
// runs of `colossal train`.
std::vector<Chart> task_charts(const std::vector<StepMetrics>& metrics);

// Whether the loss says little, because it is 0 for equal rewards however good they are: true for
// runs that learn from rewards of sampled completions.
bool learns_from_rewards(const std::vector<StepMetrics>& metrics);

}  // namespace colossal::report
