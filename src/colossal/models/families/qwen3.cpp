// Qwen3 (A. Yang et al., "Qwen3 Technical Report", 2025), as in transformers' Qwen3ForCausalLM:
// Llama with norms over each head's queries and keys.
#include "colossal/models/families/list.h"
#include "colossal/models/llama_fields.h"
#include "colossal/models/rotary_fields.h"

namespace colossal::models::qwen3 {
namespace {

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config = read_llama_fields(fields, {.positions = 32768, .head_size = 128});
  config.qkv_bias = config.attention_output_bias = fields.flag("attention_bias", false);
  config.query_key_norm = {.kind = nn::QueryKeyNormOptions::Kind::rms,
                           .epsilon = config.norm_epsilon};
  config.attention.front().rotary = read_rotary(fields, config, {});
  read_qwen_windows(fields, config);
  return config;
}

struct Size {
  int64_t layers, hidden, inner, heads, kv_heads;
};

Preset sized(const char* name, const Size& size, bool tied) {
  return {name,
          {{"vocab_size", 151936},
           {"hidden_size", size.hidden},
           {"intermediate_size", size.inner},
           {"num_hidden_layers", size.layers},
           {"num_attention_heads", size.heads},
           {"num_key_value_heads", size.kv_heads},
           {"head_dim", 128},
           {"max_position_embeddings", 40960},
           {"rope_theta", 1e6},
           {"tie_word_embeddings", tied}}};
}

}  // namespace

Family family() {
  return {.model_type = "qwen3",
          .architecture = "Qwen3ForCausalLM",
          .defaults = {{"vocab_size", 151936},
                       {"hidden_size", 4096},
                       {"intermediate_size", 22016},
                       {"num_hidden_layers", 32},
                       {"num_attention_heads", 32},
                       {"num_key_value_heads", 32}},
          .simplify = use_older_rotary_fields,
          .read = read,
          .weights = llama_weight_names,
          .presets = {sized("qwen3-0.6b", {28, 1024, 3072, 16, 8}, true),
                      sized("qwen3-1.7b", {28, 2048, 6144, 16, 8}, true),
                      sized("qwen3-4b", {36, 2560, 9728, 32, 8}, true),
                      sized("qwen3-8b", {36, 4096, 12288, 32, 8}, false),
                      sized("qwen3-14b", {40, 5120, 17408, 40, 8}, false),
                      sized("qwen3-32b", {64, 5120, 25600, 64, 8}, false)}};
}

}  // namespace colossal::models::qwen3
