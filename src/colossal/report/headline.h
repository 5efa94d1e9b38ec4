// The most important figures of a run, such as the final loss and the peak memory, as text. The
// report (run_report.h) shows them at its top.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "colossal/report/metrics_log.h"

namespace colossal::report {

struct Headline {
  std::string label;  // "Tokens per second"
  std::string value;  // formatted, with unit
  std::string note;   // e.g. "median", or a value to compare with
};

// Returns the headlines of a run, most important first; leaves out headlines for which there are no
// metrics. metrics: of all steps, ascending.
std::vector<Headline> headlines(std::span<const StepMetrics> metrics);

// Returns the median of the values that are not NaN; NaN if there are none.
double median(std::vector<double> values);

}  // namespace colossal::report
