// Which positions of a sequence each rank has that shares it.
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/mesh/strategy.h"

namespace colossal::parallel {

// Returns the positions of rank `rank` of `ranks`, of `sequence` in all, as ascending runs: with
// ulysses part `rank` of a Partition, with ring that of a zigzag.
std::vector<Range> positions_of_rank(SequenceMode mode, int64_t sequence, int ranks, int rank);

}  // namespace colossal::parallel
