#include "colossal/models/gemma_fields.h"

#include <cmath>

namespace colossal::models {

DecoderConfig read_gemma_fields(ConfigFields& fields, const GemmaDefaults& defaults) {
  DecoderConfig config = read_llama_fields(fields, defaults.llama);
  config.norm_unit_offset = true;
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden));
  config.qkv_bias = config.attention_output_bias = fields.flag("attention_bias", false);
  if (defaults.norms_around) config.norm_place = DecoderConfig::NormPlace::around;
  if (fields.flag("use_bidirectional_attention", false)) {
    throw FieldError({"use_bidirectional_attention"}, "use_bidirectional_attention = true",
                     "expected false: a model that sees what follows cannot be trained to say it");
  }
  return config;
}

double read_query_scale(ConfigFields& fields) {
  return 1 /
         std::sqrt(static_cast<double>(fields.size("query_pre_attn_scalar", 256, kMaximumWidth)));
}

WeightNames gemma_weight_names(const DecoderConfig& config) {
  WeightNames names = llama_weight_names(config);
  names.set("mlp_norm", "pre_feedforward_layernorm");
  names.set("attention_output_norm", "post_attention_layernorm");
  names.set("mlp_output_norm", "post_feedforward_layernorm");
  return names;
}

}  // namespace colossal::models
