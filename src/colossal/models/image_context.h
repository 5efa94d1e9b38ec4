// The StepContext of a forward pass over images.
#pragma once

#include "colossal/data/batch.h"
#include "colossal/nn/sequence_part.h"
#include "colossal/nn/step_context.h"

namespace colossal::models {

// Returns `base` with the tokens of images: `num_tokens` of each. batch: of images
// (data/image_batch.h). base: its seed, step and training are those of the result.
nn::StepContext image_context(const data::Batch& batch, const nn::StepContext& base,
                              const nn::SequencePart& part, int64_t num_tokens);

}  // namespace colossal::models
