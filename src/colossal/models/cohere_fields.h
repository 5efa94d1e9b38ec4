// Reads the fields that all generations of Command share.
#pragma once

#include "colossal/models/llama_fields.h"

namespace colossal::models {

// Sets parallel branches after one shared layer norm without bias, and reads the logit scale.
// Throws FieldError.
DecoderConfig read_cohere_fields(ConfigFields& fields);

}  // namespace colossal::models
