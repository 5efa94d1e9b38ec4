#include "colossal/models/gpt2/weights.h"

namespace colossal::models::gpt2 {

const LayerNames& layer_names() {
  static const LayerNames kNames{.blocks = "transformer.h.",
                                 .of_a_block = {{"attention_norm", "ln_1"},
                                                {"qkv", "attn.c_attn"},
                                                {"attention_output", "attn.c_proj"},
                                                {"mlp_norm", "ln_2"},
                                                {"mlp_up", "mlp.c_fc"},
                                                {"mlp_down", "mlp.c_proj"}},
                                 .others = {{"token_embedding", "transformer.wte"},
                                            {"position_embedding", "transformer.wpe"},
                                            {"final_norm", "transformer.ln_f"},
                                            {"head", "lm_head"}},
                                 .computed = {".attn.bias", ".attn.masked_bias"}};
  return kNames;
}

}  // namespace colossal::models::gpt2
