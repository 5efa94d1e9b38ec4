// Checks by dry runs, before a job starts, whether its ranks fit their memory budgets. Decides
// settings that are "auto": the least recomputation and offloading with which the ranks fit. If
// they do not fit, finds changes of settings with which they would.
#pragma once

#include <string>
#include <vector>

#include "colossal/booster/job.h"
#include "colossal/plan/plan.h"

namespace colossal::plan {

// Returns the job with each "auto" decided so that the job fits its budgets. memory.recompute
// becomes the least that fits of: none, selective, selective with some layers, full.
// memory.offload_* becomes the result of place_tiers(). If both are "auto", selective recomputation
// is tried first, then offloading in addition, then also recomputing more and more layers. Throws
// ConfigError if the job does not fit. The message has by how much, what needs most memory, and the
// changes with which the job would fit: as few changed settings as possible. Throws ConfigError if
// a setting is "auto" without a device budget. Returns any other job without a budget unchanged.
Job fit_memory(const Job& job);

// What the rank with the largest peak memory stores, computes and sends with one setting of
// memory.recompute.
struct RecomputeCost {
  std::string name;  // the setting: describe_recompute()
  RankPlan plan;
};
// Returns the costs of the settings none, selective and full, in this order, and, before full, of
// the job's own setting if it is none of these. own: plan of the rank with the largest peak memory,
// with the job's own setting.
std::vector<RecomputeCost> compare_recompute(const Job& job, const RankPlan& own);

// Returns the growth from `from` to `to` as text: "4.1 % more", "4.1 % fewer", "as many".
std::string describe_growth(double from, double to);

}  // namespace colossal::plan
