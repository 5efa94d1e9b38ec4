// Sets of indices of a dim: the indices that a rank holds. A set is stored as Runs: ascending,
// disjoint, non-empty ranges. A rank's local tensor has the elements of these indices in ascending
// order. The place of an index is its index in the local tensor. Example: with the runs [2, 4) and
// [7, 9), the places of the indices 2, 3, 7, 8 are 0, 1, 2, 3.
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"

namespace colossal {

using Runs = std::vector<Range>;

// Returns the total number of indices.
int64_t num_indices(const Runs& runs);

// Appends `run` to `runs`; merges it with the last range if they touch. Does nothing if `run` is
// empty. `run` must not begin before the end of the last range.
void append(Runs& runs, const Range& run);

// Returns the indices of `runs` whose places are in the range `places`.
Runs indices_at(const Runs& runs, const Range& places);

// Returns the places, with respect to `runs`, of the indices that are in both `wanted` and `runs`.
Runs places_of(const Runs& wanted, const Runs& runs);

// Returns the number of indices that are in both `a` and `b`.
int64_t num_common(const Runs& a, const Runs& b);

}  // namespace colossal
