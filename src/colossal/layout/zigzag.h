// Divides the positions of a sequence among ranks so that each rank has about the same work in
// causal attention, where late positions cost more than early positions. Ring attention uses it.
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"

namespace colossal {

// Returns the elements of part number `part` of `parts`. The `total` elements are divided into 2 *
// parts consecutive pieces of about equal size (Partition, partition.h). Each piece has whole units
// of `unit` elements; only the last unit of all may have fewer. The part has the pieces `part` and
// 2 * parts - 1 - part. The result is ascending, disjoint, non-empty ranges; adjacent pieces are
// merged.
std::vector<Range> zigzag_runs(int64_t total, int parts, int part, int64_t unit = 1);

}  // namespace colossal
