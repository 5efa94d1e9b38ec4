// The settings of a pipeline: its schedule, its stages, and their costs.
#pragma once

#include <cstdint>

#include "colossal/booster/run_config.h"
#include "colossal/mesh/strategy.h"
#include "colossal/models/language_model.h"
#include "colossal/parallel/pipeline/costs.h"
#include "colossal/parallel/pipeline/schedule.h"

namespace colossal {

// Checks parallel.pp_* and sets these fields of `strategy`, whose pp is already set: the schedule,
// the number of stages, their ranks, and the number of the model's blocks in each. Without
// pp_layers, blocks are divided so that all stages cost about the same. sequence_length is used to
// estimate costs. micro_batches: number in a step. Throws ConfigError; the message names the keys
// and what would work.
void resolve_pipeline(const ParallelConfig& config, const models::ModelFacts& facts,
                      int64_t sequence_length, int64_t micro_batches, Strategy& strategy);

// Returns the costs of each stage in floating-point operations per token, estimated from the
// model's sizes.
parallel::pipeline::Costs stage_costs(const Strategy& strategy, const models::ModelFacts& facts,
                                      int64_t sequence_length);

// Returns the order in which the ranks of the pipeline process the micro-batches of a step.
// stage_costs: only for schedules that depend on costs. Throws ConfigError if parallel.pp_schedule
// names a file for another number of micro-batches, stages or ranks.
parallel::pipeline::Schedule training_schedule(const Strategy& strategy,
                                               const parallel::pipeline::Costs& stage_costs,
                                               int64_t micro_batches);

// Returns the default of train.micro_batch. share: sequences of a replica in a step. With pp = 1
// the default is `share`. With pp > 1 it is share / n, where n is the largest number of
// micro-batches that divides `share` and is at most 4 * pp.
int64_t default_micro_batch(int64_t share, const Strategy& strategy);

}  // namespace colossal
