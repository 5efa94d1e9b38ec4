// The StepContext of a forward pass over texts.
#pragma once

#include "colossal/data/batch.h"
#include "colossal/nn/sequence_part.h"
#include "colossal/nn/step_context.h"

namespace colossal::models {

// Returns `base` with what `batch` says about its texts (data/text_batch.h): sizes, positions,
// documents, token types, sources. batch: with whole sequences. base: its seed, step and training
// are those of the result.
nn::StepContext text_context(const data::Batch& batch, const nn::StepContext& base,
                             const nn::SequencePart& part);

}  // namespace colossal::models
