// Assigns the experts of a layer to ranks, balanced by load.
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/layout/partition.h"

namespace colossal {

// rows: token rows that each expert received; experts: how many experts each rank holds. Returns
// the experts by place: rank r holds those at the places experts.range(r), ascending. Balances rows
// over ranks greedily: in descending order of rows, each expert goes to the rank with the fewest
// rows that still has room (R. L. Graham 1969, "Bounds on Multiprocessing Timing Anomalies").
// Throws InternalError if `rows` does not have experts.total() entries.
std::vector<int64_t> place_by_load(const std::vector<int64_t>& rows, const Partition& experts);

}  // namespace colossal
