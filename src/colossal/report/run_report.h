// Writes the report of a training run: report.html, a single self-contained page with headlines,
// charts, the configuration and samples.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "colossal/report/chart.h"
#include "colossal/report/metrics_log.h"

namespace colossal::report {

// A key of the run's configuration.
struct Setting {
  std::string section;  // "train"
  std::string key;      // "steps"
  std::string value;    // as text
  // Where the value comes from: "default", "file", "flag", ... Keys whose source is not "default"
  // are emphasized.
  std::string source;
};

// A line of a table of the report, e.g. "CPU" and its name.
struct Fact {
  std::string name;
  std::string value;
};

// A text that the model wrote after a prompt.
struct TextSample {
  std::string prompt;
  std::string completion;
};

// A picture that the model looked at.
struct Picture {
  std::string content;  // an image file: PNG, JPEG or WebP
  std::string caption;
  bool is_wrong = false;  // emphasized
};

// What a report shows. All strings are plain text and may contain any bytes.
struct RunReport {
  std::string title;
  std::vector<StepMetrics> metrics;  // result of read_metrics()
  // Bytes of tensors over the time of one step: one series for each kind of memory, in stacking
  // order from bottom to top. x: milliseconds. Empty: no such chart.
  std::vector<ChartSeries> step_memory;
  // For models with experts: [block][expert], the number of tokens that each expert has computed
  // (load_map.h). The element of a block without experts is empty. If no block has experts, the
  // report has no heat map.
  std::vector<std::vector<int64_t>> expert_rows;
  std::vector<Setting> configuration;  // sections are shown in the order of their first keys
  std::vector<Fact> machine;           // facts about the machine
  std::vector<Fact> model;             // facts about the model
  // Texts that the model wrote after samples_step. Empty: the report has none.
  std::vector<TextSample> samples;
  std::vector<Picture> pictures;  // likewise
  int64_t samples_step = 0;
};

// Writes the report to the file `html`; replaces an existing file atomically. Omits sections for
// which there is no data. Throws IoError if writing fails.
void write_run_report(const std::filesystem::path& html, const RunReport& report);

}  // namespace colossal::report
