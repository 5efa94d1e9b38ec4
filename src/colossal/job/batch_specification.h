// The fields that the batches of a job have.
#pragma once

#include "colossal/data/batch.h"
#include "colossal/job/job.h"

namespace colossal {

// Returns the fields of every micro-batch of the job's training, without those that a tuning method
// adds. Dry runs make their batches from it.
data::BatchSpecification batch_specification(const Job& job);

}  // namespace colossal
