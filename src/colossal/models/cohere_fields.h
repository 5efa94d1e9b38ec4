// Reads the fields of config.json that all generations of Cohere's Command models share. The
// families cohere and cohere2 use this.
#pragma once

#include "colossal/models/llama_fields.h"

namespace colossal::models {

// Reads the fields that read_llama_fields() reads, and attention_bias and logit_scale. In the
// result, norms are layer norms without bias, and a block's attention and MLP are parallel branches
// after one shared norm. The caller reads the rotary embedding (rotary_fields.h). Throws FieldError
// if a field without a default is missing, or if a field is invalid.
TransformerConfig read_cohere_fields(ConfigFields& fields);

}  // namespace colossal::models
