// Records, before a job starts, the order in which its micro-batches use the weights.
#pragma once

#include "colossal/booster/job.h"

namespace colossal {

// Runs the first micro-batch of rank `rank` as a dry run on meta tensors. All ranks get the same
// result. loss: TrainingTask::loss_to_record().
memory::OrderOfStages record_order(const Job& job, int rank, HeadLoss loss = {});

// Returns engine_config(job), with the order set if weights leave the device between uses.
EngineConfig ordered_engine_config(const Job& job, int rank, HeadLoss loss = {});

}  // namespace colossal
