#include "colossal/models/gemma_fields.h"

#include <cmath>

namespace colossal::models {

TransformerConfig read_gemma_fields(ConfigFields& fields, const LlamaDefaults& defaults) {
  TransformerConfig config = read_llama_fields(fields, defaults);
  config.norm_unit_offset = true;
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden));
  config.qkv_bias = config.attention_output_bias = fields.flag("attention_bias", false);
  if (fields.flag("use_bidirectional_attention", false)) {
    throw FieldError({"use_bidirectional_attention"}, "use_bidirectional_attention = true",
                     "expected false: training on next tokens needs causal attention");
  }
  return config;
}

TransformerConfig read_gemma2_fields(ConfigFields& fields, int64_t positions) {
  TransformerConfig config = read_gemma_fields(fields, {.positions = positions,
                                                        .head_size = 256,
                                                        .heads_divide_hidden = true,
                                                        .tied_head = true,
                                                        .activation_field = "hidden_activation",
                                                        .activation = "gelu_pytorch_tanh"});
  config.norm_place = TransformerConfig::NormPlace::around;
  // This field replaces the head size in the scale of the scores.
  const int64_t scalar = fields.size("query_pre_attn_scalar", 256, kMaximumWidth);
  config.attention.front().scale = 1 / std::sqrt(static_cast<double>(scalar));
  config.logit_soft_cap = fields.number_or_none("final_logit_softcapping", 1e-3, 1e9);
  return config;
}

WeightNames gemma2_weight_names(const TransformerConfig& config) {
  WeightNames names = llama_weight_names(config);
  names.set("mlp_norm", "pre_feedforward_layernorm");
  names.set("attention_output_norm", "post_attention_layernorm");
  names.set("mlp_output_norm", "post_feedforward_layernorm");
  return names;
}

}  // namespace colossal::models
