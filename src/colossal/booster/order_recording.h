// In which order a job's micro-batches read weights, found before it starts.
#pragma once

#include "colossal/booster/job.h"

namespace colossal {

// By a dry run of rank `rank`'s first micro-batch on meta tensors; the same for all ranks.
memory::OrderOfStages record_order(const Job& job, int rank);

// engine_config(job), with the order where weights go away between uses.
EngineConfig ordered_engine_config(const Job& job, int rank);

}  // namespace colossal
