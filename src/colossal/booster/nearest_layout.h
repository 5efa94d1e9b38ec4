// Finds layouts that work, near a layout that does not. Each candidate is tried by validating the
// whole job with it.
#pragma once

#include <functional>
#include <string>

#include "colossal/booster/run_config.h"

namespace colossal {

// Returns the strategy of `config` on `ranks` ranks. Throws LayoutError or another ConfigError if
// the settings do not work.
using Validate = std::function<Strategy(const RunConfig& config, int ranks)>;

// Returns up to two changes of `asked` and `ranks` that work, as text: "parallel.tp = 3 (dp = 2),
// or --ranks=8". Each changes as few settings as possible, at most three. Changes that keep the
// number of ranks come first, and of these the smallest. Returns "" if no such change works.
std::string nearest_layouts(const RunConfig& asked, int ranks, const Validate& validate);

}  // namespace colossal
