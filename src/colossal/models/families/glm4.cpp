// GLM-4 (Team GLM, "ChatGLM: A Family of Large Language Models", 2024), as in transformers'
// Glm4ForCausalLM: norms around the branches; half of each head has rotary embeddings, interleaved.
#include "colossal/models/families/list.h"
#include "colossal/models/llama_fields.h"
#include "colossal/models/rotary_fields.h"

namespace colossal::models::glm4 {
namespace {

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config =
      read_llama_fields(fields, {.positions = 131072, .head_size = 128, .norm_epsilon = 1.5625e-7});
  config.norm_place = TransformerConfig::NormPlace::around;
  config.qkv_bias = fields.flag("attention_bias", true);
  config.attention.front().rotary =
      read_rotary(fields, config,
                  {.partial = 0.5, .interleaved = true, .partial_field = "partial_rotary_factor"});
  return config;
}

WeightNames weight_names(const TransformerConfig& config) {
  WeightNames names = llama_weight_names(config);
  names.set("mlp_gate", "mlp.gate_up_proj", stacked_gate(config));
  names.set("mlp_up", "mlp.gate_up_proj", stacked_up(config));
  names.set("attention_output_norm", "post_self_attn_layernorm");
  names.set("mlp_output_norm", "post_mlp_layernorm");
  return names;
}

}  // namespace

Family family() {
  return {.model_type = "glm4",
          .architecture = "Glm4ForCausalLM",
          .defaults = {{"vocab_size", 151552},
                       {"hidden_size", 4096},
                       {"intermediate_size", 13696},
                       {"num_hidden_layers", 40},
                       {"num_attention_heads", 32},
                       {"num_key_value_heads", 2}},
          .simplify = use_older_rotary_fields,
          .read = read,
          .weights = weight_names,
          .presets = {{"glm4-9b",
                       {{"vocab_size", 151552},
                        {"hidden_size", 4096},
                        {"intermediate_size", 13696},
                        {"num_hidden_layers", 40},
                        {"num_attention_heads", 32},
                        {"num_key_value_heads", 2},
                        {"head_dim", 128},
                        {"max_position_embeddings", 32768},
                        {"rms_norm_eps", 1e-5},
                        {"attention_bias", true}}}}};
}

}  // namespace colossal::models::glm4
