// A line for each step in metrics.jsonl, and the same as TensorBoard events.
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
  // Appends to the file of an earlier run, without its last line if that is unfinished. An empty
  // directory: nothing is written. Throws IoError.
  MetricsLog(const std::filesystem::path& directory, bool tensorboard);
  ~MetricsLog();

  // The system has the line when this returns. A full disk costs lines and one warning, never the
  // run.
  void write(const report::StepMetrics& metrics);

 private:
  bool complained_ = false;
  std::optional<report::OutputFile> file_;
  std::unique_ptr<report::TensorBoardWriter> events_;
};

}  // namespace colossal
