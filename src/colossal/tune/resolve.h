// Prepares a tuning run: sets defaults that depend on the model and the data files, and estimates
// memory that the planner must leave free.
#pragma once

#include "colossal/booster/job.h"
#include "colossal/tune/sample_task.h"

namespace colossal::tune {

// Sets defaults in `run`, before resolve_job(). If data.sequence_length is unset, sets it to 1024,
// or to 512 + tune.max_completion_length if the run samples all completions itself; but at most to
// the model's positions minus the virtual tokens of a prefix adapter. If not `has_steps`, sets
// train.steps to the steps of tune.epochs epochs, for which it counts the samples in the files.
// has_steps: whether the user has set train.steps. Throws ConfigError if data.sequence_length
// leaves no room for a prompt, and what reading the files throws.
void resolve(const Tuning& tuning, bool has_steps, RunConfig& run);

// Returns an estimate of the bytes that a rank holds in addition to the trained model and its
// activations. These are the weights of frozen models (reference, reward models, teacher); a
// teacher's logits; and the memory of a sampler that runs during updates (sampler_bytes()). The
// weights are assumed to be evenly divided over tp x pp ranks, with ZeRO stage 3 over all ranks.
int64_t extra_bytes_during_updates(const Tuning& tuning, const Job& job);

// Returns the job for which to plan memory with dry runs: batch sizes are doubled if a sample is a
// preference pair, which has two rows, and memory budgets are reduced by extra_bytes. extra_bytes:
// result of extra_bytes_during_updates().
Job dry_run_job(const Tuning& tuning, const Job& job, int64_t extra_bytes);

}  // namespace colossal::tune
