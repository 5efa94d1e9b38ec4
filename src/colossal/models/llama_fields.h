// What config.json and the files of Llama have in common with those of its many relatives.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "colossal/models/config_fields.h"
#include "colossal/models/decoder_config.h"
#include "colossal/models/weight_names.h"

namespace colossal::models {

// Where transformers' defaults for a relative differ.
struct LlamaDefaults {
  int64_t positions = 2048;
  int64_t kv_heads = 0;              // 0: as many as heads of queries
  int64_t head_size = 0;             // 0: hidden_size / num_attention_heads
  bool heads_divide_hidden = false;  // transformers opens no model without that
  DecoderConfig::Norm norm = DecoderConfig::Norm::rms;
  double norm_epsilon = 1e-6;
  bool tied_head = false;
  const char* activation_field = "hidden_act";
  const char* activation = "silu";
};

// Sizes, norms, activation, dropout of probabilities and whether the head is tied. Throws
// FieldError.
DecoderConfig read_llama_fields(ConfigFields& fields, const LlamaDefaults& defaults);

// Throws FieldError for an activation that is not known.
ops::Activation read_activation(ConfigFields& fields, const char* name, const char* fallback);

// For each layer whether its attention slides: config.json's layer_types say it, else `slides`.
std::vector<bool> read_sliding_layers(ConfigFields& fields, const DecoderConfig& config,
                                      const std::function<bool(int64_t layer)>& slides);

// Gives the layers that slide a window. All layers had the same attention before.
void set_windows(DecoderConfig& config, const std::vector<bool>& sliding, int64_t window);

// use_sliding_window, sliding_window, max_window_layers and layer_types, as Qwen has them.
void read_qwen_windows(ConfigFields& fields, DecoderConfig& config);

WeightNames llama_weight_names(const DecoderConfig& config);

}  // namespace colossal::models
