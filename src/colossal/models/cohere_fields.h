// Reads fields that the generations of Command share.
#pragma once

#include "colossal/models/llama_fields.h"

namespace colossal::models {

// Parallel branches behind one layer norm without bias; scaled logits. Throws FieldError.
DecoderConfig read_cohere_fields(ConfigFields& fields);

}  // namespace colossal::models
