// Evaluation through a pipeline: forward passes alone.
#pragma once

#include <vector>

#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

// Returns the forward passes, with messages, of any number of micro-batches through stages on any
// ranks. The validator would refuse the schedule, as nothing goes backward.
Schedule forward_only(int num_ranks, const std::vector<int>& rank_of_stage, int num_micro_batches);

}  // namespace colossal::parallel::pipeline
