// The training loop: data, steps, evaluation, checkpoints, and what people see of them.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "colossal/booster/job.h"
#include "colossal/booster/training_task.h"
#include "colossal/comm/world.h"

namespace colossal {

struct TrainingHooks {
  // Called now and then before the first step (while corpora are tokenized), and right before it;
  // what they throw ends the run.
  std::function<void()> during_set_up = [] {};
  std::function<void()> set_up_done = [] {};
  // Asked at the end of each step, and of each step of an evaluation: true on any rank ends the run
  // there, with a checkpoint. An evaluation is broken off, but for that after the last step.
  std::function<bool()> stop_requested = [] { return false; };
  // Returns the job with memory.recompute and memory.offload_* = "auto" decided so that it fits its
  // budgets. Called on rank 0, before anything is allocated. Throws ConfigError if it does not fit.
  std::function<Job(const Job&)> fit_memory = {};
};

struct TrainingSummary {
  int64_t steps = 0;
  double loss = 0;  // of the last step
  std::optional<double> validation_loss;
  bool stopped = false;  // on request, before train.steps
  bool saved = true;     // false: the last checkpoint failed
};

// Learns to predict the next token of data.train.
std::unique_ptr<TrainingTask> make_language_modeling(const Job& job, const ParallelContext& context,
                                                     const std::function<void()>& preparing);

// Runs `job` as one of the ranks of `world`, to its end. Throws ConfigError, IoError, CommError,
// NonFiniteError (after saving the state before that step).
TrainingSummary train(const Job& job, comm::World& world, const TrainingHooks& hooks,
                      const MakeTask& make_task = make_language_modeling);

}  // namespace colossal
