// A plan as people and programs read it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "colossal/plan/fit_memory.h"
#include "colossal/plan/plan.h"

namespace colossal::plan {

// Returns tables; each figure is the largest over ranks. costs: of settings of memory.recompute,
// the first of which is none.
std::string describe(const Job& job, const Plan& plan,
                     const std::vector<RecomputeCost>& costs = {});

// Returns figures, with the keys of metrics.jsonl where it has them: the largest over ranks, and
// those of each recorded rank.
nlohmann::ordered_json to_json(const Job& job, const Plan& plan,
                               const std::vector<RecomputeCost>& costs = {});

}  // namespace colossal::plan
