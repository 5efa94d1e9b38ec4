#include "colossal/models/gpt2/weights.h"

#include <array>
#include <string_view>
#include <utility>

#include "colossal/base/error.h"

namespace colossal::models::gpt2 {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kBlockLayers{{
    {"attention_norm", "ln_1"},
    {"qkv", "attn.c_attn"},
    {"attention_output", "attn.c_proj"},
    {"mlp_norm", "ln_2"},
    {"mlp_up", "mlp.c_fc"},
    {"mlp_down", "mlp.c_proj"},
}};
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kTopLayers{{
    {"token_embedding", "transformer.wte"},
    {"position_embedding", "transformer.wpe"},
    {"final_norm", "transformer.ln_f"},
    {"head", "lm_head"},
}};

template <typename Table>
std::string translate(const Table& table, std::string_view layer, const std::string& whole) {
  for (const auto& [ours, theirs] : table) {
    if (ours == layer) return std::string(theirs);
  }
  COLOSSAL_CHECK(false, "no GPT-2 parameter {}", whole);
}

}  // namespace

std::string hugging_face_name(const std::string& parameter) {
  const size_t last = parameter.rfind('.');
  COLOSSAL_CHECK(last != std::string::npos, "no GPT-2 parameter {}", parameter);
  const std::string kind = parameter.substr(last);  // ".weight" or ".bias"
  const std::string layer = parameter.substr(0, last);
  if (!layer.starts_with("blocks.")) return translate(kTopLayers, layer, parameter) + kind;
  const size_t dot = layer.find('.', 7);
  COLOSSAL_CHECK(dot != std::string::npos, "no GPT-2 parameter {}", parameter);
  return "transformer.h." + layer.substr(7, dot - 7) + "." +
         translate(kBlockLayers, std::string_view(layer).substr(dot + 1), parameter) + kind;
}

}  // namespace colossal::models::gpt2
