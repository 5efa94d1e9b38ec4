// Assigns the experts of a layer to ranks so that ranks receive about equally many rows.
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/layout/partition.h"

namespace colossal {

// rows: the number of token rows that each expert received. experts: how many experts each rank
// holds. Returns a permutation of the experts: rank r gets the experts at indices experts.range(r)
// of the result, in ascending order. Balances the rows greedily: in descending order of their rows,
// each expert goes to the rank that has the fewest rows so far among those with room left (R. L.
// Graham 1969, "Bounds on Multiprocessing Timing Anomalies"). Throws InternalError if `rows` does
// not have experts.total() entries.
std::vector<int64_t> place_by_load(const std::vector<int64_t>& rows, const Partition& experts);

}  // namespace colossal
