// OLMo 2 (Team OLMo, "2 OLMo 2 Furious", 2024), as in transformers' Olmo2ForCausalLM: norms after
// the branches, and norms over all queries and over all keys of a token.
#include "colossal/models/families/list.h"
#include "colossal/models/llama_fields.h"
#include "colossal/models/rotary_fields.h"

namespace colossal::models::olmo2 {
namespace {

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config =
      read_llama_fields(fields, {.heads_divide_hidden = true, .norm_epsilon = 1e-5});
  config.norm_place = TransformerConfig::NormPlace::after;
  config.qkv_bias = config.attention_output_bias = fields.flag("attention_bias", false);
  config.query_key_norm = {.kind = nn::QueryKeyNormOptions::Kind::rms,
                           .over = nn::QueryKeyNormOptions::Over::all_heads,
                           .epsilon = config.norm_epsilon};
  config.attention.front().rotary = read_rotary(fields, config, {});
  return config;
}

WeightNames weight_names(const TransformerConfig& config) {
  WeightNames names = llama_weight_names(config);
  names.set("attention_output_norm", "post_attention_layernorm");
  names.set("mlp_output_norm", "post_feedforward_layernorm");
  return names;
}

Preset sized(const char* name, int64_t layers, int64_t hidden, int64_t inner, int64_t heads,
             int64_t kv_heads) {
  return {name,
          {{"vocab_size", 100352},
           {"hidden_size", hidden},
           {"intermediate_size", inner},
           {"num_hidden_layers", layers},
           {"num_attention_heads", heads},
           {"num_key_value_heads", kv_heads},
           {"max_position_embeddings", 4096},
           {"rms_norm_eps", 1e-6},
           {"rope_theta", 500000.0}}};
}

}  // namespace

Family family() {
  return {.model_type = "olmo2",
          .architecture = "Olmo2ForCausalLM",
          .defaults = {{"vocab_size", 50304},
                       {"hidden_size", 4096},
                       {"intermediate_size", 11008},
                       {"num_hidden_layers", 32},
                       {"num_attention_heads", 32}},
          .simplify = use_older_rotary_fields,
          .read = read,
          .weights = weight_names,
          .presets = {sized("olmo2-1b", 16, 2048, 8192, 16, 16),
                      sized("olmo2-7b", 32, 4096, 11008, 32, 32),
                      sized("olmo2-13b", 40, 5120, 13824, 40, 40),
                      sized("olmo2-32b", 64, 5120, 27648, 40, 8)}};
}

}  // namespace colossal::models::olmo2
