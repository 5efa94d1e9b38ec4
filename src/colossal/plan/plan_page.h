// Makes an HTML page of a plan, for `colossal plan --page=FILE`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "colossal/job/job.h"

namespace colossal::plan {

// Returns a page with the most important figures, bars of memory by kind, of bytes by axis and of
// seconds by kind, the timeline of the pipeline schedule for a job with pp > 1, the layouts that a
// search has compared, and the whole text. json: result of to_json() (plan_text.h), with that of a
// search as "search", if there was one. text: result of describe().
std::string page_of(const Job& job, const nlohmann::ordered_json& json, const std::string& text);

}  // namespace colossal::plan
