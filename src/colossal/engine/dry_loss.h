// The loss with which dry runs of a job compute.
#pragma once

#include <string>
#include <vector>

#include "colossal/engine/staged_model.h"
#include "colossal/job/job.h"
#include "colossal/mesh/parallel_context.h"

namespace colossal {

struct DryLoss {
  HeadLoss loss;
  std::vector<std::string> metrics;  // EngineConfig::metrics of this loss
};

// Returns the loss that a batch of batch_specification() has: contrastive_loss() for models of two
// towers, score_loss() for those that give scores, reconstruction_loss() for those that reconstruct
// patches, else the cross-entropy of tokens. `context` must outlive the result.
DryLoss dry_loss(const Job& job, const ParallelContext& context);

}  // namespace colossal
