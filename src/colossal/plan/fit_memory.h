// Checks by dry runs, before a job starts, whether its ranks fit their memory budgets. Finds the
// least recomputation and offloading with which they fit, and otherwise which settings would fit.
#pragma once

#include <string>
#include <vector>

#include "colossal/booster/job.h"
#include "colossal/plan/plan.h"

namespace colossal::plan {

// Returns the job with each "auto" decided so that the job fits its budgets. memory.recompute
// becomes the least that fits of: none, selective, selective with some layers, full.
// memory.offload_* becomes the result of place_tiers(). If both are "auto", selective recomputation
// is tried first, then offloading, then layers. Throws ConfigError if the job does not fit; the
// message has by how much, what needs most memory, and which settings would fit, those with the
// fewest changes first. Throws ConfigError for "auto" without a budget; returns any other job
// without a budget unchanged.
Job fit_memory(const Job& job);

// Returns what a rank stores, computes and sends with each setting of memory.recompute: none,
// selective, full, and the job's own setting if it is another one. own: the plan of the fullest
// rank with the job's own setting.
struct RecomputeCost {
  std::string name;
  RankPlan plan;  // of the rank with the largest peak memory
};
std::vector<RecomputeCost> compare_recompute(const Job& job, const RankPlan& own);

// Returns the growth from one figure to another: "4.1 % more", "as many".
std::string describe_growth(double from, double to);

}  // namespace colossal::plan
