// What the generations of Gemma have in common.
#pragma once

#include "colossal/models/llama_fields.h"

namespace colossal::models {

// Norms of 1 + weight, scaled embeddings. Throws FieldError.
DecoderConfig read_gemma_fields(ConfigFields& fields, const LlamaDefaults& defaults);

// Of Gemma 2 and later: branches have norms before and after, scores a scale of their own, and
// logits may be capped. positions: where config.json gives none.
DecoderConfig read_gemma2_fields(ConfigFields& fields, int64_t positions);
WeightNames gemma2_weight_names(const DecoderConfig& config);

}  // namespace colossal::models
