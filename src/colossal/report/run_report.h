// The report of a run: report.html, a single self-contained file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "colossal/report/chart.h"
#include "colossal/report/metrics_log.h"

namespace colossal::report {

// One key of the resolved configuration. source: where its value is from: "default", "file",
// "flag", ...; keys whose source is not "default" are emphasized.
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
  // Bytes of tensors during a step, one series for each kind, from the bottom of the stack to the
  // top; x in milliseconds.
  std::vector<ChartSeries> step_memory;
  // For models with experts: the number of rows of each expert, as in load_map.h.
  std::vector<std::vector<int64_t>> expert_rows;
  std::vector<Setting> configuration;  // sections are shown in order of first occurrence
  std::vector<Fact> machine;
  std::vector<Fact> model;
  std::string sample_prompt;  // prompt of the sample
  std::string sample;         // continuation by the model; both empty: no sample section
};

// Writes the report to the file `html`, which is replaced atomically if it exists. Omits sections
// for which there is no data. Throws IoError.
void write_run_report(const std::filesystem::path& html, const RunReport& report);

}  // namespace colossal::report
