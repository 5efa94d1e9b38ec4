// Says which experts of a layer lie together when ranks share them out, from how busy each is.
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/layout/partition.h"

namespace colossal {

// rows: that each expert had; experts: over the ranks. Returns the experts by place: those of rank
// r lie at experts.range(r), ascending. Ranks get about equally many rows: the expert of most rows
// that is left goes to the rank of fewest that has room (R. L. Graham 1969, "Bounds on
// Multiprocessing Timing Anomalies").
std::vector<int64_t> place_by_load(const std::vector<int64_t>& rows, const Partition& experts);

}  // namespace colossal
