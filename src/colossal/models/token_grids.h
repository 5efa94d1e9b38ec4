// The token grids of what a batch holds: texts, their sources, images.
#pragma once

#include "colossal/data/batch.h"
#include "colossal/nn/sequence_part.h"
#include "colossal/nn/step_context.h"

namespace colossal::models {

// Return the grid of the texts of a batch (data/text_batch.h), or of its source texts: sizes,
// positions, documents. batch: with whole sequences.
nn::TokenGrid text_grid(const data::Batch& batch, const nn::SequencePart& part);
nn::TokenGrid source_grid(const data::Batch& batch, const nn::SequencePart& part);
// Returns the grid of the images of a batch (data/image_batch.h), of `num_tokens` tokens each.
nn::TokenGrid image_grid(const data::Batch& batch, const nn::SequencePart& part,
                         int64_t num_tokens);

// Returns `base`, which has the seed, the step and whether it is training, for a batch. grids: of
// the model's stacks; the last is the one that the result is for.
nn::StepContext context_with(const nn::StepContext& base, const data::Batch& batch,
                             std::vector<nn::TokenGrid> grids);

}  // namespace colossal::models
