// Searches the fastest layout of a job, for parallel.strategy = "auto": makes dry runs of a step
// with many layouts and predicts their times (step_time.h).
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "colossal/booster/job.h"
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
  std::vector<StrategyChoice> choices;  // the fastest layouts, fastest first; at least one
  int64_t recorded = 0;                 // number of layouts whose step was predicted
  int64_t too_large = 0;                // number of these that exceed a memory budget
  int64_t impossible = 0;  // number of layouts that the model, the batch or the ranks do not allow
  double seconds = 0;      // time that the search took
};

// Called after each dry run of the search, on any of its threads, but never by two at once. done,
// total: numbers of dry runs; the total grows during the search.
using SearchProgress = std::function<void(int64_t done, int64_t total)>;

// Searches the layouts of machine.ranks ranks. Keys that the user has set keep their values; the
// search sets the others of these:
//   parallel.pp, sp, tp, ep (dp follows), tp_mode, tp_depth, sp_mode, zero, pp_schedule, pp_chunks
//   train.micro_batch
//   memory.recompute
// It proceeds in rounds, with estimates of the costs (estimated_rank.h). The first estimates each
// division of the ranks into axes, with defaults for the other keys. The next rounds change the
// other keys of the layouts that are best so far, one key at a time. At the end, the best layouts
// are predicted exactly. Layouts that exceed their memory budgets count as worse than all that do
// not; if two exceed them, the one that exceeds them by less is better.
//
// Two kinds of layouts are left out if there are layouts without: tensor parallelism over several
// hosts; and, if there are sequences for all ranks, sequence parallelism with fewer than 1,024
// tokens of a sequence on a rank. Recomputation and offloading that the user has left to the
// program ("auto") are decided for each layout (fit_memory.h); other offloading is never chosen. Of
// a pipeline, three ranks are recorded. The result depends on the arguments only, not on timing.
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
