// Finds layouts that work and are similar to a layout that does not work, for the error message of
// resolve_job(). Each candidate is tried by validating the whole job with it.
#pragma once

#include <functional>
#include <string>

#include "colossal/job/run_config.h"

namespace colossal {

// A function that returns the strategy of `config` on `ranks` ranks, and throws LayoutError or
// another ConfigError if the settings do not work.
using Validate = std::function<Strategy(const RunConfig& config, int ranks)>;

// Returns up to two alternatives, as text, that work in place of the settings `asked` on `ranks`
// ranks: "parallel.tp = 3 (dp = 2), or --ranks=8", where dp = 2 follows from tp = 3. An alternative
// changes one setting; if no change of one setting works, two; if no change of two works, three.
// Alternatives that keep the number of ranks come first; among these, and among the others, those
// whose values differ least from `asked`. Of each setting, only the values nearest to the asked
// value are tried. Returns "" if no alternative works.
std::string nearest_layouts(const RunConfig& asked, int ranks, const Validate& validate);

}  // namespace colossal
