// Checks, before a job starts, whether its ranks fit their memory budgets, with dry runs of a step
// (plan.h). Decides the settings memory.recompute and memory.offload_* that are "auto": the least
// recomputation and offloading with which the ranks fit. If they do not fit, finds changes of
// settings with which they would fit.
#pragma once

#include <string>
#include <vector>

#include "colossal/job/job.h"
#include "colossal/plan/plan.h"

namespace colossal::plan {

// Returns the job with its "auto" settings decided so that its ranks fit the budgets
// (Job::device_budget, host_budget, memory_budget). memory.recompute becomes the first of these
// that fits: none; selective; selective, and full for as few blocks as possible; full for all
// blocks. The keys memory.offload_* that are "auto" become the result of place_tiers(). If
// memory.recompute and some keys memory.offload_* are "auto", tries in this order: neither
// recomputation nor offloading; selective recomputation; offloading in addition; full recomputation
// of as few blocks as possible, up to all, in addition.
//
// A job without "auto" settings is returned unchanged if it fits or if all three budgets are 0 (no
// limit). Throws ConfigError if a setting is "auto" and Job::device_budget is 0. Throws ConfigError
// if the job does not fit. The message then says by how many bytes, which kind of memory needs
// most, and which changes of as few settings as possible would make the job fit, if any would.
Job fit_memory(const Job& job);

// The costs of a step with one setting of memory.recompute, on the rank with the largest peak
// memory.
struct RecomputeCost {
  std::string name;  // the setting as text (describe_recompute(), run_summary.h)
  RankPlan plan;
};
// Returns the costs of the settings "none", "selective" and "full" of memory.recompute, in this
// order. If the job has another setting, its costs are inserted before those of "full". own: plan
// of the rank with the largest peak memory, with the job's own setting.
std::vector<RecomputeCost> compare_recompute(const Job& job, const RankPlan& own);

// Returns as text how much more or less `to` is than `from`: "4.1 % more", "4.1 % fewer", "as many"
// if they are equal, "more" if only `from` is 0.
std::string describe_growth(double from, double to);

}  // namespace colossal::plan
