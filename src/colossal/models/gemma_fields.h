// Reads the fields that all generations of Gemma share.
#pragma once

#include "colossal/models/llama_fields.h"

namespace colossal::models {

// Reads the Llama fields and attention_bias, and sets norms that multiply by 1 + weight and
// embeddings scaled by sqrt(hidden). Throws FieldError.
DecoderConfig read_gemma_fields(ConfigFields& fields, const LlamaDefaults& defaults);

// Like read_gemma_fields(), for Gemma 2 and later: norms before and after each branch, a scale of
// the attention scores, and an optional soft cap of the logits. positions: default of
// max_position_embeddings.
DecoderConfig read_gemma2_fields(ConfigFields& fields, int64_t positions);
WeightNames gemma2_weight_names(const DecoderConfig& config);

}  // namespace colossal::models
