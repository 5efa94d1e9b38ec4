// The most important figures of a run, as text.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "colossal/report/metrics_log.h"

namespace colossal::report {

struct Headline {
  std::string label;
  std::string value;
  std::string note;  // e.g. "median", or a value to compare with
};

// Returns the headlines for which there are metrics, most important first.
std::vector<Headline> headlines(std::span<const StepMetrics> metrics);

// Returns the median of the values that are not NaN; NaN if there are none.
double median(std::vector<double> values);

}  // namespace colossal::report
