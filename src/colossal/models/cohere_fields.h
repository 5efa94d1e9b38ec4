// Reads the fields that all generations of Command share.
#pragma once

#include "colossal/models/llama_fields.h"

namespace colossal::models {

// Reads the Llama fields, attention_bias and logit_scale, and sets parallel branches after one
// shared layer norm without bias. Throws FieldError.
DecoderConfig read_cohere_fields(ConfigFields& fields);

}  // namespace colossal::models
