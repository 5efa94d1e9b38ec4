// A line for each step in metrics.jsonl, and the same as TensorBoard events.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "colossal/report/tensorboard.h"

namespace colossal {

struct StepMetrics {
  int64_t step = 0;
  double loss = 0;
  double grad_norm = 0;
  double learning_rate = 0;
  int64_t tokens = 0;
  double step_seconds = 0;
  double model_flops_utilization = 0;
  int64_t memory_peak_bytes = 0;               // largest over ranks
  std::map<std::string, int64_t> bytes_sent;   // axis -> bytes of the law, largest over ranks
  bool skipped = false;
  std::optional<double> validation_loss;       // where this step was evaluated
};

class MetricsLog {
 public:
  // Appends to what a run before left. An empty directory: nothing is written. Throws IoError.
  MetricsLog(const std::filesystem::path& directory, bool tensorboard);
  ~MetricsLog();

  // Each line is with the system when this returns. A full disk costs lines and one warning, never
  // the run.
  void write(const StepMetrics& metrics);

 private:
  void complain(const std::string& reason);

  bool complained_ = false;
  std::filesystem::path path_;
  std::ofstream file_;
  std::unique_ptr<report::TensorBoardWriter> events_;
};

}  // namespace colossal
