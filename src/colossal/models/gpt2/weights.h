// Names of GPT-2's layers in Hugging Face files. Shapes and orders are the same as ours.
#pragma once

#include "colossal/models/parameter_names.h"

namespace colossal::models::gpt2 {

const LayerNames& layer_names();

}  // namespace colossal::models::gpt2
