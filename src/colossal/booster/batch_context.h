// Selects the part of a micro-batch that this rank computes, and makes the StepContext of its
// layers.
#pragma once

#include <cstdint>

#include "colossal/data/batch.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/nn/step_context.h"

namespace colossal {

// Returns the number of positions of each sequence; 1 if the data has no sequences.
int64_t sequence_of(const data::Batch& batch);

// Returns the positions of a batch that this rank of sp computes, on the context's device.
data::Batch local_batch(const data::Batch& batch, const ParallelContext& context);

// Name of the batch field that becomes StepContext::states: the values on this rank.
inline constexpr const char* kStatesField = "states";

// steps_done, seed: key of the random numbers of this batch.
nn::StepContext context_of(const data::Batch& batch, const ParallelContext& context,
                           int64_t steps_done, uint64_t seed, bool training);

}  // namespace colossal
