// Sets defaults of a tuning run that depend on the model and the data files, before the run's job
// is resolved.
#pragma once

#include "colossal/booster/job.h"
#include "colossal/tune/sample_task.h"

namespace colossal::tune {

// Sets data.sequence_length, if unset, to 1024, or to 512 + tune.max_completion_length if all
// completions are sampled; at most the model's positions less the virtual tokens of a prefix.
// Unless `has_steps`, sets train.steps from tune.epochs and the number of samples in the files.
// Throws what reading the files throws, and ConfigError if there is no room for a prompt.
void resolve(const Tuning& tuning, bool has_steps, RunConfig& run);

// Estimates the bytes that a rank holds in addition to the trained model and its activations:
// weights of frozen models (reference, reward models, teacher), which are assumed to be evenly
// divided over ranks; a teacher's logits; and the memory of a sampler that generates while updates
// run.
int64_t extra_bytes_during_updates(const Tuning& tuning, const Job& job);

// Returns the job to use in dry runs: with twice the rows if samples are pairs, and with memory
// budgets reduced by extra_bytes, which extra_bytes_during_updates() has returned.
Job dry_run_job(const Tuning& tuning, const Job& job, int64_t extra_bytes);

}  // namespace colossal::tune
