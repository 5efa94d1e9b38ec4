// The training loop of the command line: train() runs a Job from its first step, or from its last
// checkpoint, to its end, with evaluations, checkpoints, logs and reports.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "colossal/job/job.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/training/run_folders.h"
#include "colossal/training/training_task.h"

namespace colossal {

// Functions that train() calls on each rank.
struct TrainingHooks {
  // during_set_up is called repeatedly while the run's TrainingTask is made, in particular while
  // corpora are tokenized. set_up_done is called once, when everything is ready for the first step.
  // An exception from either function ends the run.
  std::function<void()> during_set_up = [] {};
  std::function<void()> set_up_done = [] {};
  // Returns whether the run should end. Called once in each training step, just before the control
  // all-reduce, and once in each step of an evaluation. If it returns true on any rank, the run
  // completes the training step, saves a checkpoint and ends. A running evaluation is abandoned,
  // except the evaluation after the last training step.
  std::function<bool()> stop_requested = [] { return false; };
  // Called on each rank after each training step. validation_loss: of the evaluation that followed
  // the step; nullopt: none did. An exception ends the run.
  std::function<void(const StepResult&, const std::optional<double>& validation_loss)> stepped =
      [](const StepResult&, const std::optional<double>&) {};
  // Called on rank 0 when a checkpoint is on the disk.
  std::function<void()> saved = [] {};
  // Returns what the model of the task writes after each prompt (train.sample_prompts), at most
  // train.sample_tokens tokens, without special tokens. Called on all ranks, with the same prompts;
  // collective. Empty: the run cannot have sample_prompts.
  std::function<std::vector<std::string>(const Job&, models::Model&, Engine&, const TrainingTask&,
                                         const std::vector<std::vector<int32_t>>& prompts)>
      complete_prompts = {};
};

struct TrainingSummary {
  int64_t steps = 0;  // updates so far, also those before the run resumed
  double loss = 0;    // StepResult::loss of the last step; 0 if train() made no step
  // Mean loss of the last evaluation; nullopt: none was run, or the last was abandoned.
  std::optional<double> validation_loss;
  bool stopped = false;  // whether a request to stop ended the run early
  bool saved = true;     // false if the last checkpoint could not be saved
};

// A MakeTask (training_task.h): makes the task of predicting tokens of the texts in data.train
// (TrainingData) or, if the model reads images, of reconstructing masked patches of those in
// data.train (masked_images.h); the model then has TransformerConfig::reconstructs. preparing:
// called repeatedly meanwhile; it may throw to end the run. train() passes
// TrainingHooks::during_set_up. Collective over all ranks.
std::unique_ptr<TrainingTask> make_pretraining(const Job& job, const ParallelContext& context,
                                               const std::function<void()>& preparing);

// Runs `job` to its end as one of the ranks of `context`. job: with everything decided
// (plan/decided_run.h). folders: those of the job. make_task: makes this rank's task. Collective
// over all ranks. Throws ConfigError, IoError, CommError, or NonFiniteError. Before NonFiniteError
// is thrown, a checkpoint of the state before the failed step is saved, unless the failed step is
// the first of this process. A checkpoint that cannot be saved is logged, and the run continues.
TrainingSummary train(const Job& job, const ParallelContext& context, RunFolders& folders,
                      const TrainingHooks& hooks, const MakeTask& make_task = make_pretraining);

}  // namespace colossal
