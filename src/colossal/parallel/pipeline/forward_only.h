// Evaluation through a pipeline: forward passes alone.
#pragma once

#include <vector>

#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

// Returns a schedule of forward passes, with messages. rank_of_stage: any placement. The validator
// would refuse this schedule, because it has no backward passes.
Schedule forward_only(int num_ranks, const std::vector<int>& rank_of_stage, int num_micro_batches);

}  // namespace colossal::parallel::pipeline
