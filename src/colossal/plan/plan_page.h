// Writes a plan as a self-contained page.
#pragma once

#include <string>

#include "colossal/booster/job.h"

namespace colossal::plan {

// Returns an HTML page with the timeline of the job's pipeline, if it has one, and `text`, the
// result of describe().
std::string page_of(const Job& job, const std::string& text);

}  // namespace colossal::plan
