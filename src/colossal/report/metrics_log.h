// Reads the metrics of a run from metrics.jsonl, which the training loop writes: one JSON object
// per line, one line per step. Used by the report (run_report.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace colossal::report {

// Metrics of a tier other than the device (host, NVMe) in one step. Each number is the maximum over
// ranks; NaN if the line lacks it.
struct TierMetrics {
  struct Moved {
    double to = 0, from = 0;  // bytes written to the tier, and bytes read from it
  };
  double at_rest = 0;                       // peak in the step of the bytes that the tier stores
  std::map<std::string, Moved> moved = {};  // by kind of tensor: "optimizer", "parameters", ...
};

// Metrics of one step. A number is NaN (kMissing) if the line lacks it, or if it was not finite.
struct StepMetrics {
  static constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

  int64_t step = 0;  // from 1
  // Mean loss over the global batch, before the step's update. NaN if the batch had no labels, for
  // which the line has loss 0 and skipped = true.
  double loss = kMissing;
  double validation_loss = kMissing;  // only at steps with an evaluation
  double grad_norm = kMissing;        // norm of the whole gradient, before clipping
  double learning_rate = kMissing;
  double tokens = kMissing;              // number of input tokens of the global batch
  double tokens_per_second = kMissing;   // tokens / step_seconds, so of all ranks together
  double images = kMissing;              // of a run that learns from images: those of the batch
  double images_per_second = kMissing;   // images / step_seconds
  double step_seconds = kMissing;        // duration of the step, without its evaluation
  double evaluation_seconds = kMissing;  // duration of the evaluation after the step
  // Fraction of the rate of matrix products that was measured when the process began.
  double model_flops_utilization = kMissing;
  // Peak so far of the resident memory of a rank's process, and of a rank's GPU memory (NaN on
  // CPUs); maxima over ranks.
  double memory_peak_bytes = kMissing;
  double device_peak_bytes = kMissing;
  // On GPUs: computations in the step for which there was no kernel (ops/fallback/fallbacks.h);
  // maximum over ranks.
  double fallbacks = kMissing;
  // Of the rank whose tensors have the largest peak in the step: the bytes of tensors at that peak
  // by kind, their sum, and the bytes of the process that were resident before the model was built.
  // Empty and NaN on GPUs.
  std::map<std::string, double> memory_by_kind = {};
  double memory_at_peak = kMissing;
  double memory_base_bytes = kMissing;
  std::map<std::string, TierMetrics> tiers = {};    // key: "host" or "nvme"; only tiers in use
  std::map<std::string, double> bytes_sent = {};    // in the step, by axis; maximum over ranks
  std::map<std::string, double> task_metrics = {};  // all further numbers of the line, by key
  bool skipped = false;                             // the step made no update
};

// Returns the metrics of all steps in the file, one element per step, ascending by step. If several
// lines have the same step, because a resumed run has repeated it, the last line counts. Ignores
// lines that are not JSON objects with a step: a killed process may leave an incomplete line. If a
// line has an incomplete object and then a complete one, reads the complete one. Throws IoError if
// the file cannot be read.
std::vector<StepMetrics> read_metrics(const std::filesystem::path& path);

}  // namespace colossal::report
