// Prepares a tuning run: sets defaults that depend on the model and the data files, and estimates
// memory that the planner must leave free.
#pragma once

#include "colossal/job/job.h"
#include "colossal/tune/methods/sample_task.h"

namespace colossal::tune {

// Replaces names of models in the Hub's cache by their folders (io::find_model()): the teacher and
// the reward models.
void find_models(TuneConfig& config);

// Returns what an unset data.sequence_length means with a method and the defaults of
// tuning.config: DataConfig::default_sequence_length.
std::string default_sequence_length(const Tuning& tuning);

// Sets defaults in `run`, before resolve_job(). For tune classify, sets run.model.labels and, if
// the model gives no labels yet, run.model.problem_type. If data.sequence_length is unset, sets it
// to 1024, or to 512 + tune.max_completion_length if the run samples all completions itself; but at
// most to the model's positions minus the virtual tokens of a prefix adapter. If not `has_steps`,
// sets train.steps to the steps of tune.epochs epochs, for which it counts the samples in the
// files. has_steps: whether the user has set train.steps. Throws ConfigError if
// data.sequence_length leaves no room for a prompt, if the model is an encoder and the method
// trains decoders, and what reading the files throws.
void resolve(const Tuning& tuning, bool has_steps, RunConfig& run);

// Returns an estimate of the bytes that a rank holds in addition to the trained model and its
// activations. These are the weights of frozen models (reference, reward models, teacher); a
// teacher's logits; and the memory of a sampler that runs during updates (sampler_bytes()). The
// weights are assumed to be evenly divided: over all ranks if the job has ZeRO stage 3, otherwise
// over tp x pp ranks.
// The job is assumed to compute on the CPU: on a GPU, no sampler runs during updates, but the
// estimate counts it.
int64_t extra_bytes_during_updates(const Tuning& tuning, const Job& job);

// Returns the job for which to plan memory with dry runs. If a sample is a preference pair, which
// has two rows, the global batch, a replica's share of it and the micro-batch are doubled.
// Job::device_budget and Job::memory_budget, if they set a limit, are reduced by extra_bytes, to 1
// byte at least. extra_bytes: result of extra_bytes_during_updates().
Job dry_run_job(const Tuning& tuning, const Job& job, int64_t extra_bytes);

}  // namespace colossal::tune
