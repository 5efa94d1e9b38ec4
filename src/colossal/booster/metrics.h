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
  // Appends to the file of an earlier run, after removing an unfinished last line. If `directory`
  // is empty, nothing is written. Throws IoError.
  MetricsLog(const std::filesystem::path& directory, bool tensorboard);
  ~MetricsLog();

  // The line is handed to the operating system before this returns. If the disk is full, lines are
  // lost and one warning is logged; the run goes on.
  void write(const report::StepMetrics& metrics);

 private:
  bool complained_ = false;
  std::optional<report::OutputFile> file_;
  std::unique_ptr<report::TensorBoardWriter> events_;
};

}  // namespace colossal
