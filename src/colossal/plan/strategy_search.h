// Searches the fastest layout of a job, for parallel.strategy = "auto": makes dry runs of a step
// with many layouts and predicts their times (step_time.h).
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "colossal/job/job.h"
#include "colossal/plan/cluster_specification.h"
#include "colossal/plan/step_time.h"

namespace colossal::plan {

// A layout that fits its memory budgets.
struct StrategyChoice {
  // The keys that the search has set in StrategyChoice::config, and their values as in flags:
  // {"parallel.pp", "4"}. Together with the user's keys they give the job.
  std::vector<std::pair<std::string, std::string>> settings;
  RunConfig config;
  Job job;
  StepTime time;
  int64_t peak_bytes = 0;  // on the device, of the rank with most
  int64_t sent_bytes = 0;  // in a step, by the rank with most
};

struct StrategySearch {
  // The fastest layouts, fastest first; at least one. The first is predicted exactly and fits as
  // fit_memory() checks it; the others are estimated (estimated_rank.h).
  std::vector<StrategyChoice> choices;
  int64_t layouts = 0;     // number of layouts that the model, the batch and the ranks allow
  int64_t estimated = 0;   // number of these whose step was recorded; bounds ruled out the others
  int64_t dry_runs = 0;    // number of dry runs for bounds
  int64_t too_large = 0;   // number of bounds and estimates that exceed a memory budget
  int64_t impossible = 0;  // number of divisions of the ranks that do not work
  double seconds = 0;      // time that the search took
};

// Called during the search, on any of its threads, but never by two at once. done: number of
// layouts looked at so far.
using SearchProgress = std::function<void(int64_t done)>;

// Searches the layouts of machine.ranks ranks (layout_space.h) for the one whose step takes the
// least time by prediction and that fits its memory budgets. Keys that the user has set keep their
// values.
//
// The search is branch and bound, always at the layout or the division of the ranks with the lowest
// bound of its time (layout_bound.h). A division is replaced by its layouts, a layout by an
// estimate from a few short dry runs (estimated_rank.h), and an estimate by the exact prediction
// and check of its memory. So the first exact prediction that comes up is the fastest layout, as
// far as bounds and estimates are right; layouts whose bounds are higher are never recorded. The
// result depends on the arguments only, not on timing.
//
// Recomputation and offloading that the user has left to the program ("auto") are decided for each
// layout (fit_memory.h); other offloading is never chosen.
//
// keys: full names of the keys that the user has set. dry_run_job: returns the job whose dry run
// costs as much as the given one; it may be called by several threads at once. Throws ConfigError
// if no layout works, with the reason of the first, or if none fits the memory budgets, with the
// layout that comes nearest.
inline constexpr size_t kMostChoices = 10;
StrategySearch search_strategies(const RunConfig& config, const std::set<std::string>& keys,
                                 const Machine& machine, const ClusterSpecification& cluster,
                                 const std::function<Job(const Job&)>& dry_run_job,
                                 const SearchProgress& progress = {});

}  // namespace colossal::plan
