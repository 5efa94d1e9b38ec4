// Runs a training job in this process: what colossal.train and colossal.tune are in C++.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "colossal/run/given_run.h"
#include "colossal/training/trainer.h"

namespace colossal::python {

// What a run calls. Functions may throw; the exception ends the run on all ranks.
struct RunCallbacks {
  // Called after each step; returns whether the run should stop as soon as possible.
  std::function<bool(const StepResult&, const std::optional<double>& validation_loss)> stepped;
  // Called often, also before the first step; returns whether the run should stop.
  std::function<bool()> interrupted;
};

struct FinishedRun {
  TrainingSummary summary;
  std::string checkpoint;     // folder of the newest checkpoint; "": there is none
  std::string log_directory;  // of metrics.jsonl and report.html; "": none
};

// Runs `run` as one of the ranks that a launcher has started, or alone. A run that is asked to stop
// completes a step, saves a checkpoint if it has a folder for them, and returns; before the first
// step it throws InterruptedSetUp. Throws ConfigError, IoError, CommError and NonFiniteError.
FinishedRun train_in_process(const GivenRun& run, const RunCallbacks& callbacks);

// Thrown if a run was asked to stop before its first step.
class InterruptedSetUp : public Error {
 public:
  InterruptedSetUp() : Error("asked to stop before the first step") {}
};

}  // namespace colossal::python
