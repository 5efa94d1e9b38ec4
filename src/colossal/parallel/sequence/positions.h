// Which positions of a sequence each rank has that shares it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/mesh/parallel_context.h"

namespace colossal::parallel {

// Returns the positions of rank `rank` of `ranks`, of `sequence` in all, as ascending runs: with
// ulysses part `rank` of a Partition, with ring that of a zigzag.
std::vector<Range> positions_of_rank(SequenceMode mode, int64_t sequence, int ranks, int rank);

// Returns those of this rank as one tensor, [positions] int64 on the host. Throws InternalError for
// a sequence that has fewer positions than ranks.
at::Tensor positions_here(int64_t sequence, const ParallelContext& context);

}  // namespace colossal::parallel
