// A plan as people and programs read it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "colossal/plan/plan.h"

namespace colossal::plan {

// A table: each figure of the rank for which it is the largest.
std::string describe(const Job& job, const Plan& plan);

// The keys of metrics.jsonl where it has them, largest over ranks, and each recorded rank.
nlohmann::ordered_json to_json(const Job& job, const Plan& plan);

}  // namespace colossal::plan
