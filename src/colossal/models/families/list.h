// One function for each family, in its own file.
#pragma once

#include "colossal/models/family.h"

// clang-format off
namespace colossal::models {
namespace gpt2 { Family family(); }
namespace llama { Family family(); }
namespace qwen2 { Family family(); }
}  // namespace colossal::models
// clang-format on
