// A plan as a self-contained page.
#pragma once

#include <string>

#include "colossal/booster/job.h"

namespace colossal::plan {

// Returns a page of HTML with the timeline of the job's pipeline, if it has one, and `text`, as
// describe() gives it.
std::string page_of(const Job& job, const std::string& text);

}  // namespace colossal::plan
