// Declares the functions that return the supported model families (family.h). Each is defined in
// the file of its namespace: bloom::family() in bloom.cpp. models::families() calls them all.
#pragma once

#include "colossal/models/family.h"

// clang-format off
namespace colossal::models {
namespace bart { Family family(); }
namespace bert { Family family(); }
namespace bloom { Family family(); }
namespace clip { Family family(); }
namespace cohere { Family family(); }
namespace cohere2 { Family family(); }
namespace deepseek_v2 { Family family(); }
namespace deepseek_v3 { Family family(); }
namespace deit { Family family(); }
namespace dinov2 { Family family(); }
namespace dinov2_with_registers { Family family(); }
namespace distilbert { Family family(); }
namespace falcon { Family family(); }
namespace gemma { Family family(); }
namespace gemma2 { Family family(); }
namespace gemma3_text { Family family(); }
namespace glm4 { Family family(); }
namespace gpt2 { Family family(); }
namespace gpt_neox { Family family(); }
namespace gpt_oss { Family family(); }
namespace gptj { Family family(); }
namespace llama { Family family(); }
namespace mistral { Family family(); }
namespace mixtral { Family family(); }
namespace modernbert { Family family(); }
namespace mt5 { Family family(); }
namespace olmo2 { Family family(); }
namespace opt { Family family(); }
namespace phi3 { Family family(); }
namespace qwen2 { Family family(); }
namespace qwen2_moe { Family family(); }
namespace qwen3 { Family family(); }
namespace qwen3_moe { Family family(); }
namespace roberta { Family family(); }
namespace siglip { Family family(); }
namespace smollm3 { Family family(); }
namespace t5 { Family family(); }
namespace vit { Family family(); }
namespace xlm_roberta { Family family(); }
}  // namespace colossal::models
// clang-format on
