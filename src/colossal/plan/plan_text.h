// Writes a plan as text and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "colossal/plan/fit_memory.h"
#include "colossal/plan/plan.h"

namespace colossal::plan {

// Returns the plan as tables. The table of memory by kind shows the rank with the largest peak
// memory; every other figure is the maximum over ranks. costs: result of compare_recompute(), for a
// table of the settings of memory.recompute, or empty. The first entry must be that of "none": the
// other settings are compared with it.
std::string describe(const Job& job, const Plan& plan,
                     const std::vector<RecomputeCost>& costs = {});

// Returns the same figures as describe(), and those of each recorded rank. A figure that
// metrics.jsonl has, too, has the same key there.
nlohmann::ordered_json to_json(const Job& job, const Plan& plan,
                               const std::vector<RecomputeCost>& costs = {});

}  // namespace colossal::plan
