// A line for each step in metrics.jsonl, and the same as TensorBoard events.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "colossal/report/metrics_log.h"
#include "colossal/report/tensorboard.h"

namespace colossal {

class MetricsLog {
 public:
  // Appends to what a run before left. An empty directory: nothing is written. Throws IoError.
  MetricsLog(const std::filesystem::path& directory, bool tensorboard);
  ~MetricsLog();

  // Each line is with the system when this returns. A full disk costs lines and one warning, never
  // the run.
  void write(const report::StepMetrics& metrics);

 private:
  void complain(const std::string& reason);

  bool complained_ = false;
  std::filesystem::path path_;
  std::ofstream file_;
  std::unique_ptr<report::TensorBoardWriter> events_;
};

}  // namespace colossal
