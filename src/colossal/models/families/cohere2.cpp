// Command R7B and Command A (Cohere, "Command A", 2025), as transformers' Cohere2ForCausalLM
// computes them: three layers slide and turn, the fourth does neither.
#include "colossal/models/families/list.h"
#include "colossal/models/llama_fields.h"
#include "colossal/models/rotary_fields.h"

namespace colossal::models::cohere2 {
namespace {

DecoderConfig read(ConfigFields& fields) {
  DecoderConfig config = read_llama_fields(fields, {.positions = 8192,
                                                    .norm = DecoderConfig::Norm::layer,
                                                    .norm_epsilon = 1e-5,
                                                    .tied_head = true});
  config.norm_bias = false;
  config.parallel_branches = config.shared_norm = true;
  config.qkv_bias = config.attention_output_bias = fields.flag("attention_bias", false);
  config.logit_scale = fields.number("logit_scale", 0.0625, 1e-9, 1e9);
  const ops::RotaryOptions rotary = read_rotary(fields, config, {.interleaved = true});
  const int64_t pattern = fields.size("sliding_window_pattern", 4, kMaximumLayers);
  fields.ignore("_sliding_window_pattern");  // layer_types stands beside it
  const std::vector<bool> sliding = read_sliding_layers(
      fields, config, [&](int64_t layer) { return (layer + 1) % pattern != 0; });
  set_windows(config, sliding, fields.size("sliding_window", 4096, kMaximumPositions));
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    if (sliding[layer]) config.attention[layer].rotary = rotary;
  }
  return config;
}

}  // namespace

Family family() {
  return {.model_type = "cohere2",
          .architecture = "Cohere2ForCausalLM",
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
