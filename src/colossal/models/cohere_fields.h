// What the generations of Command have in common.
#pragma once

#include "colossal/models/llama_fields.h"

namespace colossal::models {

// Both branches at once behind one layer norm without bias, logits scaled. Throws FieldError.
DecoderConfig read_cohere_fields(ConfigFields& fields);

}  // namespace colossal::models
