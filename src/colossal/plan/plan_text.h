// Returns a plan as text and as JSON, for `colossal plan`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "colossal/plan/fit_memory.h"
#include "colossal/plan/plan.h"
#include "colossal/plan/strategy_search.h"

namespace colossal::plan {

// Returns the plan as tables for a terminal. The table of memory by kind is that of the rank with
// the largest peak memory. Other figures are maxima over plan.ranks; in the table of the pipeline,
// each row has the maxima over the ranks with one coordinate along pp. costs: result of
// compare_recompute() (fit_memory.h), for a table that compares each setting of memory.recompute
// with "none"; empty: the text has no such table.
std::string describe(const Job& job, const Plan& plan,
                     const std::vector<RecomputeCost>& costs = {});

// Returns the figures of describe() as JSON, and also the figures of each single rank in
// plan.ranks. A figure that a run writes to metrics.jsonl has the same key as there.
nlohmann::ordered_json to_json(const Job& job, const Plan& plan,
                               const std::vector<RecomputeCost>& costs = {});

// Return the result of a search: the fastest layouts, with their times and what they cost.
std::string describe(const StrategySearch& search);
nlohmann::ordered_json to_json(const StrategySearch& search);

}  // namespace colossal::plan
