// Finds a layout that works in place of one that does not, by validating the whole job with each
// candidate.
#pragma once

#include <functional>
#include <string>

#include "colossal/booster/run_config.h"

namespace colossal {

// The strategy that settings and a number of ranks come to, or LayoutError or another ConfigError.
using Validate = std::function<Strategy(const RunConfig& config, int ranks)>;

// "parallel.tp = 3 (dp = 2), or --ranks=8": the fewest settings changed, then the same number of
// ranks first, then the least far from what was asked; up to two. "" where nothing near works.
std::string nearest_layouts(const RunConfig& asked, int ranks, const Validate& validate);

}  // namespace colossal
