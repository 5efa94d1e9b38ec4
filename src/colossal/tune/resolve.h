// What a tuning run leaves open, found before the job is.
#pragma once

#include "colossal/booster/job.h"
#include "colossal/tune/sample_task.h"

namespace colossal::tune {

// Fills data.sequence_length, by the model's positions and at most 1024, and unless `has_steps`
// train.steps, by tune.epochs and how many samples the files have. Throws what reading them throws.
void resolve(const Tuning& tuning, bool has_steps, RunConfig& run);

// Of a job the same with as many rows as samples become: two where they are pairs. What is left of
// the memory budgets is without a reference's weights.
Job job_of_rows(const Tuning& tuning, const Job& job);

}  // namespace colossal::tune
