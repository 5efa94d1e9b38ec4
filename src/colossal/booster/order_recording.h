// Records, before a job starts, the order in which its micro-batches use the weights.
#pragma once

#include "colossal/booster/job.h"

namespace colossal {

// Runs micro-batches of rank `rank` as a dry run on meta tensors, and returns the order for each of
// the rank's stages. Ranks with the same stages get the same result. loss: result of
// TrainingTask::loss_to_record(), which says what an empty function means. Not collective.
memory::OrderOfStages record_order(const Job& job, int rank, HeadLoss loss = {});

// Returns engine_config(job), with EngineConfig::order set if the job's weights are sharded or
// offloaded. rank, loss: as in record_order().
EngineConfig ordered_engine_config(const Job& job, int rank, HeadLoss loss = {});

}  // namespace colossal
