// Cross-attention with sequence parallelism: each rank has some positions of the queries' sequence
// and some of the memory. Its queries attend to the whole memory, whose keys and values the ranks
// gather.
#pragma once

#include "colossal/mesh/parallel_context.h"
#include "colossal/nn/dense_layers.h"

namespace colossal::parallel {

// Returns how the ranks of sp of `context`, which must outlive the result, divide sequences. Law: a
// gather() sends the keys and values of this rank's positions to the other ranks (all-gather), and
// its backward pass sums their gradients (reduce-scatter).
nn::DividedSequences divided_sequences(const ParallelContext& context);

}  // namespace colossal::parallel
