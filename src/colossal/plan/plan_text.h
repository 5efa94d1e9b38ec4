// Writes a plan as text and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "colossal/plan/fit_memory.h"
#include "colossal/plan/plan.h"

namespace colossal::plan {

// Returns tables. Each figure is the maximum over ranks. costs: one entry for each setting of
// memory.recompute; the first setting must be none.
std::string describe(const Job& job, const Plan& plan,
                     const std::vector<RecomputeCost>& costs = {});

// Returns the maximum of each figure over ranks, and the figures of each recorded rank. Keys are
// those of metrics.jsonl if it has the figure.
nlohmann::ordered_json to_json(const Job& job, const Plan& plan,
                               const std::vector<RecomputeCost>& costs = {});

}  // namespace colossal::plan
