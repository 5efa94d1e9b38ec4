// The pipeline schedule of evaluation and inference, which have only forward passes.
#pragma once

#include <vector>

#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

// Returns a schedule that runs the forward passes of all micro-batches, with sends and receives.
// rank_of_stage: the rank of each stage; any placement is possible. Do not pass the result to
// check_schedule(), which requires backward passes.
Schedule forward_only(int num_ranks, const std::vector<int>& rank_of_stage, int num_micro_batches);

}  // namespace colossal::parallel::pipeline
