// Divides the positions of a sequence of which late ones cost more than early ones.
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"

namespace colossal {

// `total` elements cut into 2 `parts` pieces as evenly as they go, in whole units of `unit`
// elements (see Partition); part i has the pieces i and 2 parts - 1 - i. Returned ascending, joined
// where they touch, without empty ones. The work of causal attention, which grows along the
// sequence, is then the same for all parts.
std::vector<Range> zigzag_runs(int64_t total, int parts, int part, int64_t unit = 1);

}  // namespace colossal
