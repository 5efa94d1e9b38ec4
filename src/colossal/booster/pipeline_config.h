// The settings of a pipeline: its schedule, its stages, and their costs.
#pragma once

#include <cstdint>

#include "colossal/booster/run_config.h"
#include "colossal/mesh/strategy.h"
#include "colossal/models/language_model.h"
#include "colossal/parallel/pipeline/costs.h"
#include "colossal/parallel/pipeline/schedule.h"

namespace colossal {

// Checks parallel.pp_* and sets the schedule, the stages and the cut of the model's blocks in
// `strategy`, whose pp is already set. sequence_length: for the costs by which blocks are divided
// among stages. micro_batches: per step. Throws ConfigError; the message names the keys and what
// would work.
void resolve_pipeline(const ParallelConfig& config, const models::ModelFacts& facts,
                      int64_t sequence_length, int64_t micro_batches, Strategy& strategy);

// Returns the costs of each stage in floating-point operations per token, for schedules that depend
// on costs.
parallel::pipeline::Costs stage_costs(const Strategy& strategy, const models::ModelFacts& facts,
                                      int64_t sequence_length);

// Returns the order in which the ranks of the pipeline process the micro-batches of a step. Throws
// ConfigError if parallel.pp_schedule names a file for another number of micro-batches, stages or
// ranks.
parallel::pipeline::Schedule training_schedule(const Strategy& strategy,
                                               const parallel::pipeline::Costs& stage_costs,
                                               int64_t micro_batches);

// Returns the default of train.micro_batch. With one rank of pp: the whole share of a replica.
// Else: the size that gives 4 micro-batches per rank of the pipeline, or the largest smaller number
// of micro-batches that divides the share.
int64_t default_micro_batch(int64_t share, const Strategy& strategy);

}  // namespace colossal
