// Resolves the settings of pipeline parallelism, parallel.pp_*: the schedule, the division of the
// model's blocks into stages, and the estimated costs of the stages.
#pragma once

#include <cstdint>

#include "colossal/job/run_config.h"
#include "colossal/mesh/strategy.h"
#include "colossal/models/model_facts.h"
#include "colossal/parallel/pipeline/costs.h"
#include "colossal/parallel/pipeline/schedule.h"

namespace colossal {

// Checks parallel.pp_* and sets strategy.pp_schedule, pp_chunks, stage_ranks and stage_blocks.
// strategy.pp must be set before. If pp_layers is unset, blocks are divided so that all stages cost
// about the same; the costs are estimated for sequences of `sequence_length` tokens. micro_batches:
// number of micro-batches of a replica in a step. With pp = 1, only checks that no pp_* key is set.
// Throws ConfigError; the message names the keys and, where possible, values that would work.
void resolve_pipeline(const ParallelConfig& config, const models::ModelFacts& facts,
                      int64_t sequence_length, int64_t micro_batches, Strategy& strategy);

// Before stage_costs() and training_schedule(), call resolve_pipeline() on `strategy`.

// Returns the costs of each stage in floating-point operations per token, estimated from the
// model's sizes for sequences of `sequence_length` tokens. The result has no costs of messages.
parallel::pipeline::Costs stage_costs(const Strategy& strategy, const models::ModelFacts& facts,
                                      int64_t sequence_length);

// Returns the pipeline schedule strategy.pp_schedule for a training step of `micro_batches`
// micro-batches. stage_costs: used only by schedules that depend on costs. Throws ConfigError if
// pp_schedule names a file whose schedule is for another number of micro-batches, stages or ranks.
parallel::pipeline::Schedule training_schedule(const Strategy& strategy,
                                               const parallel::pipeline::Costs& stage_costs,
                                               int64_t micro_batches);

// Returns the default of train.micro_batch, in sequences. Reads only strategy.pp, so it may be
// called before resolve_pipeline(). share: sequences of a replica in a step, at least 1.
// With pp = 1 the default is `share`. With pp > 1 it is share / n, where n is the largest divisor
// of `share` that is at most 4 * pp; the step then has n micro-batches.
int64_t default_micro_batch(int64_t share, const Strategy& strategy);

}  // namespace colossal
