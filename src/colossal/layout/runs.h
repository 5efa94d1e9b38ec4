// Sets of indices as runs: ascending, disjoint ranges, none empty. A local tensor stores the
// indices of its runs one after the other; the position of an index in that order is called its
// place.
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"

namespace colossal {

using Runs = std::vector<Range>;

int64_t num_indices(const Runs& runs);

// Appends a run, merging it with the last run if they touch. Does nothing if `run` is empty.
void append(Runs& runs, const Range& run);

// Returns the indices at the places [line.begin, line.end) of `runs`.
Runs indices_at(const Runs& runs, const Range& line);

// Returns the places in `runs` of the indices that are in both `wanted` and `runs`.
Runs places_of(const Runs& wanted, const Runs& runs);

// Returns the number of indices that are in both.
int64_t num_common(const Runs& a, const Runs& b);

}  // namespace colossal
