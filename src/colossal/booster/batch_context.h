// Cuts out the part of a micro-batch that a rank computes, and makes the context that its layers
// need.
#pragma once

#include <cstdint>

#include "colossal/data/batch.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/nn/step_context.h"

namespace colossal {

// Returns the positions of each sequence; 1 for data without sequences.
int64_t sequence_of(const data::Batch& batch);

// Returns this rank's positions of a batch, on the context's device.
data::Batch batch_here(const data::Batch& batch, const ParallelContext& context);

// The field of a batch that has StepContext::states, as they are here.
inline constexpr const char* kStatesField = "states";

// steps_done, seed: the key of the batch's random numbers.
nn::StepContext context_of(const data::Batch& batch, const ParallelContext& context,
                           int64_t steps_done, uint64_t seed, bool training);

}  // namespace colossal
