// The training loop: data, steps, evaluation, checkpoints, and output for people.
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
  // during_set_up is called repeatedly before the first step, while corpora are tokenized;
  // set_up_done is called right before the first step. An exception from either ends the run.
  std::function<void()> during_set_up = [] {};
  std::function<void()> set_up_done = [] {};
  // Called at the end of each training step and of each evaluation step. If it returns true on any
  // rank, the run ends there and saves a checkpoint. An evaluation in progress is abandoned, except
  // the evaluation after the last training step.
  std::function<bool()> stop_requested = [] { return false; };
  // Returns the job with memory.recompute = "auto" and memory.offload_* = "auto" decided so that
  // the job fits its memory budgets. Called on rank 0, before anything is allocated. Throws
  // ConfigError if the job cannot fit.
  std::function<Job(const Job&)> fit_memory = {};
};

struct TrainingSummary {
  int64_t steps = 0;
  double loss = 0;  // of the last step
  std::optional<double> validation_loss;
  bool stopped = false;  // ended by a request before train.steps
  bool saved = true;     // false if the last checkpoint failed
};

// Makes the task of predicting the next token of data.train.
std::unique_ptr<TrainingTask> make_language_modeling(const Job& job, const ParallelContext& context,
                                                     const std::function<void()>& preparing);

// Runs `job` to its end as one of the ranks of `world`. Throws ConfigError, IoError, CommError, or
// NonFiniteError. Before NonFiniteError is thrown, the state before the failed step is saved.
TrainingSummary train(const Job& job, comm::World& world, const TrainingHooks& hooks,
                      const MakeTask& make_task = make_language_modeling);

}  // namespace colossal
