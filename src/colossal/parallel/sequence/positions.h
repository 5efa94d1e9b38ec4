// The positions of a sequence that each rank of sp holds. With sequence parallelism (sp > 1), the
// positions of every sequence are divided among the ranks of sp.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/nn/sequence_part.h"

namespace colossal::parallel {

// Returns the positions that rank `rank` of `ranks` ranks holds of a sequence of `sequence` tokens,
// as ascending ranges. With ulysses, the sequence is cut into one piece per rank, of about equal
// lengths (Partition). With ring, the sequence is cut into 2 * ranks pieces, of which the rank has
// the pieces `rank` and 2 * ranks - 1 - rank (zigzag_runs()).
std::vector<Range> positions_of_rank(SequenceMode mode, int64_t sequence, int ranks, int rank);

// Returns the positions that this rank holds of a sequence of `sequence` tokens, [positions on this
// rank] int64 on the host. Throws InternalError if `sequence` is less than sp.
at::Tensor positions_here(int64_t sequence, const ParallelContext& context);

// Returns the part of each sequence that this rank computes. `context` must outlive the result.
nn::SequencePart sequence_part(const ParallelContext& context);

}  // namespace colossal::parallel
