// SmolLM3 (Hugging Face, "SmolLM3: smol, multilingual, long-context reasoner", 2025), as in
// transformers' SmolLM3ForCausalLM: Llama without rotary embeddings in every fourth layer (B. Yang
// et al., "Rope to Nope and Back Again", 2025).
#include "colossal/models/families/list.h"
#include "colossal/models/llama_fields.h"
#include "colossal/models/rotary_fields.h"

namespace colossal::models::smollm3 {
namespace {

// Reads which layers have rotary embeddings.
std::vector<bool> read_turning_layers(ConfigFields& fields, const TransformerConfig& config) {
  const int64_t interval = fields.size("no_rope_layer_interval", 4, kMaximumLayers);
  std::vector<bool> turning;
  if (fields.has("no_rope_layers")) {
    for (const double turns : fields.numbers("no_rope_layers", config.layers, 0, 1)) {
      turning.push_back(turns != 0);
    }
    return turning;
  }
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    turning.push_back((layer + 1) % interval != 0);
  }
  return turning;
}

TransformerConfig read(ConfigFields& fields) {
  TransformerConfig config = read_llama_fields(fields, {.positions = 32768, .tied_head = true});
  config.qkv_bias = config.attention_output_bias = fields.flag("attention_bias", false);
  config.mlp_up_bias = config.mlp_down_bias = fields.flag("mlp_bias", false);
  config.attention.front().rotary = read_rotary(fields, config, {.base = 2e6});
  const std::vector<bool> turning = read_turning_layers(fields, config);
  const int64_t window = read_used_window(fields, 0);
  const std::vector<bool> sliding = read_sliding_layers(
      fields, config, [&](int64_t layer) { return window > 0 && !turning[layer]; });
  set_windows(config, sliding, window);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    if (!turning[layer]) config.attention[layer].rotary = {};
  }
  return config;
}

}  // namespace

Family family() {
  return {.model_type = "smollm3",
          .architecture = "SmolLM3ForCausalLM",
          .defaults = {{"vocab_size", 128256},
                       {"hidden_size", 2048},
                       {"intermediate_size", 11008},
                       {"num_hidden_layers", 36},
                       {"num_attention_heads", 16},
                       {"num_key_value_heads", 4}},
          .simplify = use_older_rotary_fields,
          .read = read,
          .weights = llama_weight_names,
          .presets = {{"smollm3-3b",
                       {{"vocab_size", 128256},
                        {"hidden_size", 2048},
                        {"intermediate_size", 11008},
                        {"num_hidden_layers", 36},
                        {"num_attention_heads", 16},
                        {"num_key_value_heads", 4},
                        {"max_position_embeddings", 65536},
                        {"rope_theta", 5e6}}}}};
}

}  // namespace colossal::models::smollm3
