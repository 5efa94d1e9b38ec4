// Writes the metrics of each step of a run to metrics.jsonl, one JSON object per line, and as
// TensorBoard events. RunMonitor uses this; report/metrics_log.h reads the file.
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
  // Creates `directory` if it is missing, and opens its metrics.jsonl. If the file exists, its
  // lines are kept, except an unfinished last line. tensorboard: whether to write TensorBoard
  // events, too. An empty `directory`: write() does nothing. Throws IoError.
  MetricsLog(const std::filesystem::path& directory, bool tensorboard);
  ~MetricsLog();

  // Writes the metrics of a step; the line is handed to the operating system before this returns.
  // If writing fails, for example because the disk is full, the metrics of this step are lost, and
  // a warning is logged the first time only. write() then throws nothing, so that the run
  // continues.
  void write(const report::StepMetrics& metrics);

 private:
  bool complained_ = false;  // whether the warning was logged
  std::optional<report::OutputFile> file_;
  std::unique_ptr<report::TensorBoardWriter> events_;
};

}  // namespace colossal
