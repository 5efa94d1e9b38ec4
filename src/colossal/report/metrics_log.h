// Reads the metrics of a run from metrics.jsonl, which has one JSON object per line, one line for
// each step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace colossal::report {

// Metrics of one tier other than the device; each is the maximum over ranks.
struct TierMetrics {
  struct Moved {
    double to = 0, from = 0;  // bytes
  };
  double at_rest = 0;                       // peak of bytes stored in the tier
  std::map<std::string, Moved> moved = {};  // traffic to and from the tier, by kind of tensor
};

// Metrics of one step. A value is NaN if the line lacks the number, or if the number was not
// finite.
struct StepMetrics {
  static constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

  int64_t step = 0;  // from 1
  // Mean over the global batch, before the step's update. NaN if the batch had no labels; the line
  // then has loss 0 and skipped = true.
  double loss = kMissing;
  double validation_loss = kMissing;  // only at steps with an evaluation
  double grad_norm = kMissing;        // before clipping
  double learning_rate = kMissing;
  double tokens = kMissing;  // number of input tokens of the global batch
  double tokens_per_second = kMissing;
  double step_seconds = kMissing;
  double model_flops_utilization = kMissing;  // fraction of the machine's measured FLOP/s
  double memory_peak_bytes = kMissing;        // maximum over ranks
  double device_peak_bytes = kMissing;        // GPU memory, maximum over ranks
  // Of the rank whose tensors took the most bytes: these bytes by kind, their sum, and the bytes
  // that were resident before the model was built.
  std::map<std::string, double> memory_by_kind = {};
  double memory_at_peak = kMissing;
  double memory_base_bytes = kMissing;
  std::map<std::string, TierMetrics> tiers = {};    // "host", "nvme", if used
  std::map<std::string, double> bytes_sent = {};    // axis -> bytes, maximum over ranks
  std::map<std::string, double> task_metrics = {};  // further metrics of the task, by name
  bool skipped = false;                             // the step made no update on any rank
};

// Returns one entry per step, ascending by step. If a step occurs in several lines, because a
// resumed run has repeated it, the last line counts. Ignores unknown keys and incomplete lines: a
// killed process may leave a partial last line, which a resumed run may continue. Throws IoError if
// the file cannot be read.
std::vector<StepMetrics> read_metrics(const std::filesystem::path& path);

}  // namespace colossal::report
