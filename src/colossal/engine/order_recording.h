// Finds the order in which the forward and backward passes of a job use its weights, by a dry run.
// ChunkEngine needs the order to gather sharded weights and fetch offloaded weights ahead of their
// uses.
#pragma once

#include "colossal/engine/engine_config.h"
#include "colossal/engine/staged_model.h"
#include "colossal/job/job.h"

namespace colossal {

// Runs a training step of rank `rank` on meta tensors, and returns the order of uses for each of
// the rank's stages. Ranks with the same stages get the same result. loss: a loss that uses the
// head's weights in the order of the task's loss (TrainingTask::loss_to_record()). Empty:
// dry_loss() or, if the model has a value head, the cross-entropy and after it the value head. Not
// collective.
memory::OrderOfStages record_order(const Job& job, int rank, HeadLoss loss = {});

// Returns engine_config(job). If the job's weights are sharded (ZeRO stage 3) or offloaded, also
// sets EngineConfig::order to the result of record_order() for these arguments.
EngineConfig ordered_engine_config(const Job& job, int rank, HeadLoss loss = {});

}  // namespace colossal
