// What the generations of Gemma have in common.
#pragma once

#include "colossal/models/llama_fields.h"

namespace colossal::models {

struct GemmaDefaults {
  LlamaDefaults llama;
  bool norms_around = false;  // branches have norms before and after
};

// Norms of 1 + weight, scaled embeddings, gated GELU. Throws FieldError.
DecoderConfig read_gemma_fields(ConfigFields& fields, const GemmaDefaults& defaults);

// query_pre_attn_scalar: scores are divided by its root, not by that of a head's size.
double read_query_scale(ConfigFields& fields);

// Of Gemma 2 and later, whose branches have norms before and after.
WeightNames gemma_weight_names(const DecoderConfig& config);

}  // namespace colossal::models
