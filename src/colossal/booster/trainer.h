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
  // during_set_up is called repeatedly while the task is made, in particular while corpora are
  // tokenized. set_up_done is called once, right before the first step. An exception from either
  // ends the run.
  std::function<void()> during_set_up = [] {};
  std::function<void()> set_up_done = [] {};
  // Called once in each training step, just before the ranks agree on the update, and once in each
  // step of an evaluation. If it returns true on any rank, the run completes the training step,
  // saves a checkpoint and ends. An evaluation in progress is abandoned, unless it is the one after
  // the last training step.
  std::function<bool()> stop_requested = [] { return false; };
  // Returns the job with memory.recompute = "auto" and memory.offload_* = "auto" decided so that
  // the job fits its memory budgets: plan::fit_memory(). Called only on rank 0, before anything is
  // allocated. Throws ConfigError if the job cannot fit. Empty: nothing is checked, and no such
  // setting may be "auto".
  std::function<Job(const Job&)> fit_memory = {};
};

struct TrainingSummary {
  int64_t steps = 0;                      // updates so far, also those before the run resumed
  double loss = 0;                        // of the last step
  std::optional<double> validation_loss;  // of the last evaluation; nullopt if there was none
  bool stopped = false;                   // a request to stop ended the run before train.steps
  bool saved = true;                      // false if the last checkpoint failed
};

// Makes the task of predicting the next token of data.train.
std::unique_ptr<TrainingTask> make_language_modeling(const Job& job, const ParallelContext& context,
                                                     const std::function<void()>& preparing);

// Runs `job` to its end as one of the ranks of `world`. Collective. Throws ConfigError, IoError,
// CommError, or NonFiniteError. Before NonFiniteError is thrown, the state before the failed step
// is saved, unless the failed step is the first of this process.
TrainingSummary train(const Job& job, comm::World& world, const TrainingHooks& hooks,
                      const MakeTask& make_task = make_language_modeling);

}  // namespace colossal
