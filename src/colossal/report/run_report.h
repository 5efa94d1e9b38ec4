// The report of a run: report.html, a single self-contained file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "colossal/report/chart.h"
#include "colossal/report/metrics_log.h"

namespace colossal::report {

// One key of the resolved configuration. source: "default", "file", "flag", ...; keys that differ
// from "default" are emphasized.
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

// All strings are plain text and may contain any bytes.
struct RunReport {
  std::string title;
  std::vector<StepMetrics> metrics;  // result of read_metrics()
  // Bytes of tensors by kind during a step, bottom of the stack first; x in milliseconds.
  std::vector<ChartSeries> step_memory;
  // For models with experts: [block][expert], number of rows of each expert (see load_map.h).
  std::vector<std::vector<int64_t>> expert_rows;
  std::vector<Setting> configuration;  // sections are shown in order of first occurrence
  std::vector<Fact> machine;
  std::vector<Fact> model;
  std::string sample_prompt;  // prompt of the sample
  std::string sample;         // continuation by the model; both empty: no sample section
};

// Writes the report, replacing `html` atomically. Omits sections without metrics. Throws IoError.
void write_run_report(const std::filesystem::path& html, const RunReport& report);

}  // namespace colossal::report
