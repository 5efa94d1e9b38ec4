// Zigzag partition of a sequence, for causal attention, where late positions cost more than early
// ones.
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"

namespace colossal {

// Cuts `total` elements into 2 * parts pieces, as evenly as possible, in whole units of `unit`
// elements (see Partition), and returns pieces `part` and 2 * parts - 1 - part as ascending,
// non-empty runs, merged where they touch. All parts then have about the same work in causal
// attention.
std::vector<Range> zigzag_runs(int64_t total, int parts, int part, int64_t unit = 1);

}  // namespace colossal
