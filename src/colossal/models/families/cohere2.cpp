// Command R7B and Command A (Cohere, "Command A", 2025), as in transformers' Cohere2ForCausalLM.
// Three of four layers have a sliding window and rotary embeddings, the fourth has neither.
#include "colossal/models/cohere_fields.h"
#include "colossal/models/families/list.h"
#include "colossal/models/rotary_fields.h"

namespace colossal::models::cohere2 {
namespace {

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config = read_cohere_fields(fields);
  const ops::RotaryOptions rotary = read_rotary(fields, config, {.interleaved = true});
  const std::vector<bool> sliding = read_window_pattern(fields, config, 4);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    if (sliding[layer]) config.attention[layer].rotary = rotary;
  }
  return config;
}

}  // namespace

Family family() {
  return {.model_type = "cohere2",
          .architecture = "Cohere2ForCausalLM",
          .defaults = {{"vocab_size", 256000},
                       {"hidden_size", 8192},
                       {"intermediate_size", 22528},
                       {"num_hidden_layers", 40},
                       {"num_attention_heads", 64}},
          .simplify = use_older_rotary_fields,
          .read = read,
          .weights = llama_weight_names,
          .presets = {{"command-r7b",
                       {{"vocab_size", 256000},
                        {"hidden_size", 4096},
                        {"intermediate_size", 14336},
                        {"num_hidden_layers", 32},
                        {"num_attention_heads", 32},
                        {"num_key_value_heads", 8},
                        {"max_position_embeddings", 132096},
                        {"rope_theta", 50000.0},
                        {"logit_scale", 0.25}}}}};
}

}  // namespace colossal::models::cohere2
