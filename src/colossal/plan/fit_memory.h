// Out of memory before a job starts: whether its ranks fit their budgets, how little recomputation
// and offloading make them fit, and which settings would where they do not. By dry runs.
#pragma once

#include <string>
#include <vector>

#include "colossal/booster/job.h"
#include "colossal/plan/plan.h"

namespace colossal::plan {

// The job as it fits its budgets. What is "auto" is found: of memory.recompute the least of none,
// selective, selective and some layers, and full that fits; of memory.offload_* what place_tiers()
// finds. Both together: selective first, then what moves, then layers. Throws ConfigError that says
// by how much it does not fit, of what most is, and which settings would: those with the fewest
// changes first. A job without a budget is left as it is, and refused where something is open.
Job fit_memory(const Job& job);

// What a rank takes, computes and sends with each setting of memory.recompute: none, selective,
// full, and the job's own setting if that is another one, whose fullest rank is `own`.
struct RecomputeCost {
  std::string name;
  RankPlan plan;  // of the rank whose tensors take most
};
std::vector<RecomputeCost> compare_recompute(const Job& job, const RankPlan& own);

// "4.1 % more", from one figure to another; "as many" where they are equal.
std::string describe_growth(double from, double to);

}  // namespace colossal::plan
