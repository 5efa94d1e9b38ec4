// Reads the fields of config.json that all generations of Cohere's Command models share. The
// families cohere and cohere2 use this.
#pragma once

#include "colossal/models/llama_fields.h"

namespace colossal::models {

// Reads the fields of read_llama_fields(), attention_bias and logit_scale. Sets a layer norm
// without bias, and blocks whose attention and MLP are parallel branches after one shared norm. The
// caller reads the rotary embedding (rotary_fields.h). Throws FieldError.
DecoderConfig read_cohere_fields(ConfigFields& fields);

}  // namespace colossal::models
