// Assigns the experts of a layer to ranks so that all ranks get about the same number of rows (a
// row is one token for one expert). Builders use it when the loads of experts have been observed.
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/layout/partition.h"

namespace colossal {

// Returns the experts in the order of the ranks: elements experts.range(r) of the result are the
// indices of rank r's experts, ascending.
//   rows     number of rows that each expert has received; one element for each expert
//   experts  how many experts each rank holds: rank r holds experts.range(r).size() experts
// Throws InternalError if rows.size() is not experts.total().
//
// A greedy method: experts are assigned in descending order of their rows, each to the rank with
// the fewest rows so far among the ranks that still have room (R. L. Graham 1969, "Bounds on
// Multiprocessing Timing Anomalies").
std::vector<int64_t> place_by_load(const std::vector<int64_t>& rows, const Partition& experts);

}  // namespace colossal
