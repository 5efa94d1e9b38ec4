// Finds a layout that works in place of one that does not, by validating the whole job with each
// candidate.
#pragma once

#include <functional>
#include <string>

#include "colossal/booster/run_config.h"

namespace colossal {

// Returns the strategy of these settings on so many ranks, or throws LayoutError or another
// ConfigError.
using Validate = std::function<Strategy(const RunConfig& config, int ranks)>;

// Returns up to two layouts that work: "parallel.tp = 3 (dp = 2), or --ranks=8". First come those
// with the fewest changed settings, then those with the same number of ranks, then those nearest to
// what was asked. "" if nothing near works.
std::string nearest_layouts(const RunConfig& asked, int ranks, const Validate& validate);

}  // namespace colossal
