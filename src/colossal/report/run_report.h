// The page that a run leaves behind: report.html, one file to open, send or keep.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "colossal/report/chart.h"
#include "colossal/report/metrics_log.h"

namespace colossal::report {

// One key of the resolved configuration. `source`: "default", "file", "flag", ...; what is not a
// default is set off from the rest.
struct Setting {
  std::string section;
  std::string key;
  std::string value;
  std::string source;
};

struct Fact {
  std::string name;
  std::string value;
};

// Plain text throughout; any bytes are fine.
struct RunReport {
  std::string title;
  std::vector<StepMetrics> metrics;  // as read_metrics gives them
  // Bytes of tensors by kind over a step, from the lowest to the highest in the stack; x in
  // milliseconds.
  std::vector<ChartSeries> step_memory;
  // Of a model with experts, by block: how many rows each had.
  std::vector<std::vector<int64_t>> expert_rows;
  std::vector<Setting> configuration;  // sections in the order in which they first occur
  std::vector<Fact> machine;
  std::vector<Fact> model;
  std::string sample_prompt;  // what the model was given, and
  std::string sample;         // how it went on; both empty: no such section
};

// Replaces `html` atomically. What the metrics do not hold is left out. Throws IoError.
void write_run_report(const std::filesystem::path& html, const RunReport& report);

}  // namespace colossal::report
