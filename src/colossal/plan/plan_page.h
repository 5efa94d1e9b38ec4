// Returns a plan as a self-contained HTML page, for `colossal plan`.
#pragma once

#include <string>

#include "colossal/booster/job.h"

namespace colossal::plan {

// Returns an HTML page with the timeline of the job's pipeline, if pp > 1, and with `text`. text:
// result of describe() (plan_text.h).
std::string page_of(const Job& job, const std::string& text);

}  // namespace colossal::plan
