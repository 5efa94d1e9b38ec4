// Names of the layers of a Llama in Hugging Face files. Shapes and orders are the same as ours.
#pragma once

#include "colossal/models/parameter_names.h"

namespace colossal::models::llama {

const LayerNames& layer_names();

}  // namespace colossal::models::llama
