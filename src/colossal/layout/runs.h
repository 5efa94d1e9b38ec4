// Sets of indices of a dim as runs: ascending, disjoint ranges, none empty. A local tensor stores
// the elements of these indices one after the other. The place of an index is its position in that
// order, counted from 0.
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"

namespace colossal {

using Runs = std::vector<Range>;

int64_t num_indices(const Runs& runs);

// Appends a run, which must not begin before the end of the last one. Merges the two if they touch.
// Does nothing if `run` is empty.
void append(Runs& runs, const Range& run);

// Returns the indices of `runs` whose places are in `line`.
Runs indices_at(const Runs& runs, const Range& line);

// Returns the places in `runs` of the indices that are in both `wanted` and `runs`.
Runs places_of(const Runs& wanted, const Runs& runs);

// Returns the number of indices that are in both.
int64_t num_common(const Runs& a, const Runs& b);

}  // namespace colossal
