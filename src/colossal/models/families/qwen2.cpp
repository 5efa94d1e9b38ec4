// Qwen2 and Qwen2.5 (A. Yang et al., "Qwen2 Technical Report", 2024), as in transformers'
// Qwen2ForCausalLM: Llama with biases of queries, keys and values.
#include "colossal/models/families/list.h"
#include "colossal/models/llama_fields.h"
#include "colossal/models/rotary_fields.h"

namespace colossal::models::qwen2 {
namespace {

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config = read_llama_fields(fields, {.positions = 32768});
  config.qkv_bias = true;
  config.attention.front().rotary = read_rotary(fields, config, {});
  read_qwen_windows(fields, config);
  return config;
}

struct Size {
  int64_t layers, hidden, inner, heads, kv_heads, vocabulary;
};

Preset sized(const char* name, const Size& size, bool tied) {
  return {name,
          {{"vocab_size", size.vocabulary},
           {"hidden_size", size.hidden},
           {"intermediate_size", size.inner},
           {"num_hidden_layers", size.layers},
           {"num_attention_heads", size.heads},
           {"num_key_value_heads", size.kv_heads},
           {"max_position_embeddings", 32768},
           {"rope_theta", 1e6},
           {"tie_word_embeddings", tied}}};
}

}  // namespace

Family family() {
  return {.model_type = "qwen2",
          .architecture = "Qwen2ForCausalLM",
          .defaults = {{"vocab_size", 151936},
                       {"hidden_size", 4096},
                       {"intermediate_size", 22016},
                       {"num_hidden_layers", 32},
                       {"num_attention_heads", 32},
                       {"num_key_value_heads", 32}},
          .simplify = use_older_rotary_fields,
          .read = read,
          .weights = llama_weight_names,
          .presets = {sized("qwen2-0.5b", {24, 896, 4864, 14, 2, 151936}, true),
                      sized("qwen2-7b", {28, 3584, 18944, 28, 4, 152064}, false)}};
}

}  // namespace colossal::models::qwen2
