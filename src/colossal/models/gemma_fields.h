// Reads the fields of config.json, and has the weight names, that the generations of Gemma share.
#pragma once

#include "colossal/models/llama_fields.h"

namespace colossal::models {

// Reads the fields of read_llama_fields(), with `defaults` for missing ones, and attention_bias.
// Sets norms that multiply by 1 + weight, and embeddings that are multiplied by sqrt(hidden). The
// caller reads the rotary embedding (rotary_fields.h). Throws FieldError if a field is
// invalid, or if use_bidirectional_attention is true.
TransformerConfig read_gemma_fields(ConfigFields& fields, const LlamaDefaults& defaults);

// For Gemma 2 and later: reads the fields of read_gemma_fields(), query_pre_attn_scalar (attention
// scores are divided by its square root) and final_logit_softcapping. Sets norms before and after
// each branch. Here, too, the caller reads the rotary embedding. positions: default of
// max_position_embeddings. Throws FieldError.
TransformerConfig read_gemma2_fields(ConfigFields& fields, int64_t positions);
// Returns the names of the weights of Gemma 2 and later in files.
WeightNames gemma2_weight_names(const TransformerConfig& config);

}  // namespace colossal::models
