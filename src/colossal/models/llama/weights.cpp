#include "colossal/models/llama/weights.h"

namespace colossal::models::llama {

const LayerNames& layer_names() {
  static const LayerNames kNames{.blocks = "model.layers.",
                                 .of_a_block = {{"attention_norm", "input_layernorm"},
                                                {"query", "self_attn.q_proj"},
                                                {"key", "self_attn.k_proj"},
                                                {"value", "self_attn.v_proj"},
                                                {"attention_output", "self_attn.o_proj"},
                                                {"mlp_norm", "post_attention_layernorm"},
                                                {"mlp_gate", "mlp.gate_proj"},
                                                {"mlp_up", "mlp.up_proj"},
                                                {"mlp_down", "mlp.down_proj"}},
                                 .others = {{"token_embedding", "model.embed_tokens"},
                                            {"final_norm", "model.norm"},
                                            {"head", "lm_head"}},
                                 .computed = {".rotary_emb.inv_freq"}};
  return kNames;
}

}  // namespace colossal::models::llama
