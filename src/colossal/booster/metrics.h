// Writes the metrics of each step to metrics.jsonl, one line per step, and as TensorBoard events.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "colossal/report/metrics_log.h"
#include "colossal/report/output_file.h"
#include "colossal/report/tensorboard.h"

namespace colossal {

class MetricsLog {
 public:
  // Creates `directory` if it is missing. If it has a metrics.jsonl of an earlier run, appends to
  // it; an unfinished last line is removed first. tensorboard: also writes TensorBoard events. If
  // `directory` is empty, nothing is written. Throws IoError.
  MetricsLog(const std::filesystem::path& directory, bool tensorboard);
  ~MetricsLog();

  // Writes the metrics of a step. The line is handed to the operating system before this returns.
  // If that fails, for example because the disk is full, the line is lost; a warning is logged for
  // the first lost line only, and the run goes on.
  void write(const report::StepMetrics& metrics);

 private:
  bool complained_ = false;
  std::optional<report::OutputFile> file_;
  std::unique_ptr<report::TensorBoardWriter> events_;
};

}  // namespace colossal
