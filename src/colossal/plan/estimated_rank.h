// Estimates what a step costs a rank without a dry run of the whole model: blocks are alike, so the
// costs follow from dry runs with few blocks. For searches over many layouts.
#pragma once

#include <vector>

#include "colossal/job/job.h"
#include "colossal/plan/cluster_specification.h"
#include "colossal/plan/plan.h"

namespace colossal::plan {

// Returns the plans of ranks, with RankPlan::seconds. If the model's blocks are alike and each
// stage has more than 2 * kFewBlocks of them, makes dry runs of the job with kFewBlocks and with 2
// * kFewBlocks blocks in each stage, and adds to each figure of the first the difference of the two
// for each further kFewBlocks blocks. Otherwise makes a dry run of the job. Records only a few
// micro-batches; what a rank of a pipeline holds of more of them, its activation_bytes for each
// that the schedule keeps, is added to the activations at its peak. Sets only these fields: rank,
// seconds, sent, memory_at_peak, activation_bytes and at_rest.
inline constexpr int64_t kFewBlocks = 2;
std::vector<RankPlan> estimated_ranks(const Job& job, const std::vector<int>& ranks,
                                      const ClusterSpecification& cluster);

}  // namespace colossal::plan
