#include "colossal/models/cohere_fields.h"

namespace colossal::models {

TransformerConfig read_cohere_fields(ConfigFields& fields) {
  TransformerConfig config = read_llama_fields(fields, {.positions = 8192,
                                                        .norm = TransformerConfig::Norm::layer,
                                                        .norm_epsilon = 1e-5,
                                                        .tied_head = true});
  config.norm_bias = false;
  config.parallel_branches = config.shared_norm = true;
  config.qkv_bias = config.attention_output_bias = fields.flag("attention_bias", false);
  config.logit_scale = fields.number("logit_scale", 0.0625, 1e-9, 1e9);
  return config;
}

}  // namespace colossal::models
