// The settings of a pipeline: its schedule, its stages, and what these cost.
#pragma once

#include <cstdint>

#include "colossal/booster/run_config.h"
#include "colossal/mesh/strategy.h"
#include "colossal/models/language_model.h"
#include "colossal/parallel/pipeline/costs.h"
#include "colossal/parallel/pipeline/schedule.h"

namespace colossal {

// Checks parallel.pp_* and puts schedule, stages and the cut of the model's blocks into `strategy`,
// whose pp is known. sequence_length: for the costs by which blocks are cut. micro_batches: of a
// step. Throws ConfigError naming the keys and what would work.
void resolve_pipeline(const ParallelConfig& config, const models::ModelFacts& facts,
                      int64_t sequence_length, int64_t micro_batches, Strategy& strategy);

// Returns each stage's costs in floating-point operations a token, by which schedules that have a
// choice decide.
parallel::pipeline::Costs stage_costs(const Strategy& strategy, const models::ModelFacts& facts,
                                      int64_t sequence_length);

// The order in which the ranks of the pipeline work on the micro-batches of a step. Throws
// ConfigError where parallel.pp_schedule names a file that is for another number of them.
parallel::pipeline::Schedule training_schedule(const Strategy& strategy,
                                               const parallel::pipeline::Costs& stage_costs,
                                               int64_t micro_batches);

// Returns the default of train.micro_batch: all of a replica's share; with several stages, what
// gives 4 micro-batches for each rank of the pipeline, or the most below that which divide the
// share.
int64_t default_micro_batch(int64_t share, const Strategy& strategy);

}  // namespace colossal
