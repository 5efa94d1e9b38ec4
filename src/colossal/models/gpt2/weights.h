// Names of GPT-2's parameters in Hugging Face files. Shapes and orders are the same as ours.
#pragma once

#include <string>

namespace colossal::models::gpt2 {

// "blocks.3.mlp_up.weight" -> "transformer.h.3.mlp.c_fc.weight". Throws InternalError for a name
// that the model does not have.
std::string hugging_face_name(const std::string& parameter);

}  // namespace colossal::models::gpt2
