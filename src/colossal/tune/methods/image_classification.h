// The training task of `colossal tune classify` for models that read images.
#pragma once

#include <memory>

#include "colossal/job/job.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/training/training_task.h"

namespace colossal::tune {

// `job` and `context` must outlive the task. Collective.
std::unique_ptr<TrainingTask> make_image_classification(const Job& job,
                                                        const ParallelContext& context);

}  // namespace colossal::tune
