// The task of training a model of two towers on pairs of an image and a text (models/text_tower.h).
#pragma once

#include <memory>

#include "colossal/job/job.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/training/training_task.h"

namespace colossal {

// The job's model must have a text tower. The samples of data.train and data.validation are images
// with texts. The loss is contrastive_loss() over the global batch, in an evaluation over the
// samples of each of its steps. The pictures of a report show a few images of data.validation, each
// with the text among theirs that the model finds most similar. Collective over all ranks.
std::unique_ptr<TrainingTask> make_contrastive_task(const Job& job, const ParallelContext& context);

}  // namespace colossal
