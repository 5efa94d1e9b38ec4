// Finds a layout that works, near a layout that does not. Validates the whole job with each
// candidate.
#pragma once

#include <functional>
#include <string>

#include "colossal/booster/run_config.h"

namespace colossal {

// Returns the strategy of these settings on `ranks` ranks. Throws LayoutError or another
// ConfigError if they do not work.
using Validate = std::function<Strategy(const RunConfig& config, int ranks)>;

// Returns up to two layouts that work: "parallel.tp = 3 (dp = 2), or --ranks=8". Sorted by number
// of changed settings, then layouts with the same number of ranks first, then by distance from the
// settings in `asked`. Returns "" if no near layout works.
std::string nearest_layouts(const RunConfig& asked, int ranks, const Validate& validate);

}  // namespace colossal
