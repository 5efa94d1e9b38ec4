// Sets of indices as runs: ascending, apart, none empty. A tensor's part has the indices of its
// runs one after the other: its line.
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"

namespace colossal {

using Runs = std::vector<Range>;

int64_t num_indices(const Runs& runs);

// Appends a run, joined to the last one if they touch. Does nothing for an empty run.
void append(Runs& runs, const Range& run);

// Indices at places [line.begin, line.end) of the line of `runs`.
Runs indices_at(const Runs& runs, const Range& line);

// Returns where, within the line of `runs`, those indices of `wanted` lie that it has.
Runs places_of(const Runs& wanted, const Runs& runs);

// How many indices both have.
int64_t num_common(const Runs& a, const Runs& b);

}  // namespace colossal
