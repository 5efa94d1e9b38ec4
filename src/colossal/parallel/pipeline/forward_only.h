// Evaluation through a pipeline: forward passes alone.
#pragma once

#include <vector>

#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

// Any number of micro-batches over stages that lie anywhere, with its messages. No schedule that
// the validator finds whole: nothing goes backward.
Schedule forward_only(int num_ranks, const std::vector<int>& rank_of_stage, int num_micro_batches);

}  // namespace colossal::parallel::pipeline
