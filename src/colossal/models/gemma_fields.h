// Reads fields that the generations of Gemma share.
#pragma once

#include "colossal/models/llama_fields.h"

namespace colossal::models {

// Norms of 1 + weight, scaled embeddings. Throws FieldError.
DecoderConfig read_gemma_fields(ConfigFields& fields, const LlamaDefaults& defaults);

// The same for Gemma 2 and later: norms before and after branches, a scale of attention scores,
// optional soft caps. positions: the default.
DecoderConfig read_gemma2_fields(ConfigFields& fields, int64_t positions);
WeightNames gemma2_weight_names(const DecoderConfig& config);

}  // namespace colossal::models
