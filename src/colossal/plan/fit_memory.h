// Finds out before a job starts, by dry runs, whether its ranks fit their memory budgets, how
// little recomputation and offloading makes them fit, and else which settings would.
#pragma once

#include <string>
#include <vector>

#include "colossal/booster/job.h"
#include "colossal/plan/plan.h"

namespace colossal::plan {

// Returns the job with each "auto" decided so that it fits its budgets: for memory.recompute the
// least of none, selective, selective and some layers, and full that fits; for memory.offload_*
// what place_tiers() finds. If both are "auto", selective comes first, then offloading, then
// layers. Throws ConfigError if the job does not fit: by how much, what takes most, and which
// settings would fit, those with the fewest changes first. A job without a budget is returned as it
// is, and refused if anything is "auto".
Job fit_memory(const Job& job);

// What a rank holds, computes and sends with each setting of memory.recompute: none, selective,
// full, and the job's own setting if that is another one. own: the plan of the fullest rank with
// the job's own setting.
struct RecomputeCost {
  std::string name;
  RankPlan plan;  // of the rank whose tensors take most
};
std::vector<RecomputeCost> compare_recompute(const Job& job, const RankPlan& own);

// "4.1 % more", from one figure to another; "as many" where they are equal.
std::string describe_growth(double from, double to);

}  // namespace colossal::plan
