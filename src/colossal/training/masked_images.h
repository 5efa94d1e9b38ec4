// The task of pretraining on images: to reconstruct masked patches, as in SimMIM (Z. Xie et al.,
// "SimMIM: A Simple Framework for Masked Image Modeling", 2022).
#pragma once

#include <memory>

#include "colossal/job/job.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/training/training_task.h"

namespace colossal {

// The job's model must have TransformerConfig::reconstructs. resolve_masks() (mask_config.h) says
// which patches are masked: those of a training image follow from data.seed and its position in the
// order of samples, those of an image of data.validation from data.seed and its index. The loss is
// reconstruction_loss(). The pictures of a report show a few images of data.validation, each as it
// is, as the model sees it, and with masked patches as the model reconstructs them. Collective over
// all ranks.
std::unique_ptr<TrainingTask> make_masked_images(const Job& job, const ParallelContext& context);

}  // namespace colossal
