// Fills in settings that a tuning run leaves open, before its job is resolved.
#pragma once

#include "colossal/booster/job.h"
#include "colossal/tune/sample_task.h"

namespace colossal::tune {

// Sets data.sequence_length, if not given, to 1024 (512 + tune.max_completion_length for methods
// that sample), at most the model's positions. Unless `has_steps`, sets train.steps from
// tune.epochs and the number of samples in the files. Throws what reading the files throws, and
// ConfigError if there is no room for a prompt.
void resolve(const Tuning& tuning, bool has_steps, RunConfig& run);

// Returns the bytes of tensors that a rank holds beside the model in training and its activations,
// at most: weights of frozen models, a teacher's logits, and what a sampler takes that goes on
// beside the passes of updates.
int64_t bytes_beside_updates(const Tuning& tuning, const Job& job);

// Returns the job as dry runs must see it: with twice the rows if samples are pairs, and with
// budgets reduced by bytes_beside_updates().
Job job_of_rows(const Tuning& tuning, const Job& job);

}  // namespace colossal::tune
