// The metrics of a run, as metrics.jsonl holds them: an object a line, a line a step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace colossal::report {

// Figures of one tier off the device. Each is that of the rank that has the most.
struct TierMetrics {
  struct Moved {
    double to = 0, from = 0;  // bytes
  };
  double at_rest = 0;                       // bytes there, when most were
  std::map<std::string, Moved> moved = {};  // by kind, what went there and came from there
};

// One step. A number that its line lacks, or that was not finite, is NaN.
struct StepMetrics {
  static constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

  int64_t step = 0;  // from 1
  // Mean over the global batch, before the step's update. Missing if the batch had no labels: its
  // line then says loss 0, skipped.
  double loss = kMissing;
  double validation_loss = kMissing;  // at steps that evaluated
  double grad_norm = kMissing;        // before clipping
  double learning_rate = kMissing;
  double tokens = kMissing;  // inputs of the global batch
  double tokens_per_second = kMissing;
  double step_seconds = kMissing;
  double model_flops_utilization = kMissing;  // a fraction of the machine's measured rate
  double memory_peak_bytes = kMissing;        // largest over ranks
  double device_peak_bytes = kMissing;        // on a GPU
  // The peak of the rank whose tensors took most: bytes by kind, their sum, and what was resident
  // before the model.
  std::map<std::string, double> memory_by_kind = {};
  double memory_at_peak = kMissing;
  double memory_base_bytes = kMissing;
  std::map<std::string, TierMetrics> tiers = {};  // "host", "nvme", where they are used
  std::map<std::string, double> bytes_sent = {};  // mesh axis to bytes, largest over ranks
  std::map<std::string, double> of_task = {};     // what the task tells beside the loss, by name
  bool skipped = false;                           // no rank updated
};

// Reads each step once, in the order of steps. Of a repeated step the last line counts, since a
// resumed run appends. Skips unknown keys and torn lines: a killed process leaves its last line
// unfinished, and a resumed run may write on in it. Throws IoError if the file cannot be read.
std::vector<StepMetrics> read_metrics(const std::filesystem::path& path);

}  // namespace colossal::report
