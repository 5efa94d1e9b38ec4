// Zigzag partition of a sequence. It balances the work of causal attention, in which late positions
// cost more than early ones.
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"

namespace colossal {

// Cuts `total` elements into 2 * parts pieces of whole units of `unit` elements (see Partition).
// Returns the elements of part number `part`, which are pieces `part` and 2 * parts - 1 - part, as
// ascending, non-empty runs; adjacent runs are merged.
std::vector<Range> zigzag_runs(int64_t total, int parts, int part, int64_t unit = 1);

}  // namespace colossal
