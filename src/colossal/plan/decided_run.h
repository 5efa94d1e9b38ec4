// decide(): everything that the ranks of a run decide together once they are connected, before
// train() allocates anything.
#pragma once

#include <functional>
#include <string>

#include "colossal/job/job.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/plan/fit_memory.h"
#include "colossal/training/run_folders.h"

namespace colossal::plan {

struct DecidedRun {
  RunFolders folders;
  Job job;
};

// Opens the run's folders, then decides in this order: the types (decide_precision()),
// recomputation and offloading, and the run's id and log folder (decide_log_folder()).
// memory_folder: see RunFolders. fit: fit_memory(), perhaps of another job that costs more. Rank 0
// calls it for the smallest budgets of all ranks, since hosts may differ but ranks must recompute
// and offload alike. Collective over all ranks. Throws on all ranks: ConfigError if the job cannot
// fit, and what RunFolders throws.
DecidedRun decide(const Job& job, const ParallelContext& context,
                  const std::function<Job(const Job&)>& fit = fit_memory,
                  const std::string& memory_folder = "");

}  // namespace colossal::plan
