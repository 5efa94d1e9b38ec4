// Two of the decisions of plan::decide() (plan/decided_run.h).
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "colossal/job/job.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/training/run_folders.h"

namespace colossal {

// Returns the types as the state of a checkpoint has them.
nlohmann::json describe(const Precision& precision);

// Returns the job with precision.* = "auto" decided: precision.compute is the type that the run has
// used so far, whatever this machine would choose, or for a new run rank 0's choice;
// precision.gradients follows the law of every start (resolve_precision()), so that it suits a
// changed layout. Logs types that differ from those of `start`, the checkpoint from which the run
// goes on. Collective over all ranks.
Job decide_precision(Job job, const ParallelContext& context,
                     const std::optional<std::filesystem::path>& start);

// Returns the job with the run's id, and with its own folder below log.directory if others use that
// one. A run that is done keeps the folder, to which nothing is written then. Collective over all
// ranks.
Job decide_log_folder(Job job, const ParallelContext& context, RunFolders& folders);

}  // namespace colossal
