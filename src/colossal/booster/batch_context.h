// Selects the part of a micro-batch that this rank computes, and makes the StepContext that the
// layers receive with it.
#pragma once

#include <cstdint>

#include "colossal/data/batch.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/nn/step_context.h"

namespace colossal {

// Returns the number of positions of each sequence; 1 if the inputs have no dimension of positions.
int64_t sequence_of(const data::Batch& batch);

// Returns this rank's part of a batch, on the context's device: all samples, and of each sequence
// the positions that this rank of sp computes.
data::Batch local_batch(const data::Batch& batch, const ParallelContext& context);

// Name of the batch field whose values become StepContext::states.
inline constexpr const char* kStatesField = "states";

// Makes the StepContext of a batch. batch: the whole batch, not the result of local_batch().
// steps_done, seed: key of the batch's random numbers.
nn::StepContext context_of(const data::Batch& batch, const ParallelContext& context,
                           int64_t steps_done, uint64_t seed, bool training);

}  // namespace colossal
