// Finds, before a job starts, the order in which its micro-batches read weights.
#pragma once

#include "colossal/booster/job.h"

namespace colossal {

// Runs the first micro-batch of rank `rank` dry, on meta tensors. The result is the same for all
// ranks. loss: TrainingTask::loss_to_record().
memory::OrderOfStages record_order(const Job& job, int rank, HeadLoss loss = {});

// Returns engine_config(job), with the order if weights leave the device between uses.
EngineConfig ordered_engine_config(const Job& job, int rank, HeadLoss loss = {});

}  // namespace colossal
