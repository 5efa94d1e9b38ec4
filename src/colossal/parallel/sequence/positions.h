// The positions of a sequence that each of the ranks sharing it holds.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/mesh/parallel_context.h"

namespace colossal::parallel {

// Returns which positions of a sequence of `sequence` tokens rank `rank` of `ranks` holds, as
// ascending runs: with ulysses, part `rank` of a Partition; with ring, part `rank` of a zigzag (see
// zigzag_runs).
std::vector<Range> positions_of_rank(SequenceMode mode, int64_t sequence, int ranks, int rank);

// Returns the positions that this rank of `sp` holds, [positions] int64 on the host. Throws
// InternalError if the sequence has fewer positions than there are ranks.
at::Tensor positions_here(int64_t sequence, const ParallelContext& context);

}  // namespace colossal::parallel
