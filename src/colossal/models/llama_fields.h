// Reads the fields of config.json, and has the weight names, that Llama shares with many related
// families.
#pragma once

#include <cstdint>

#include "colossal/models/decoder_fields.h"
#include "colossal/models/weight_names.h"

namespace colossal::models {

// What differs between these families: the defaults that Hugging Face transformers has for missing
// fields, and some names of fields.
struct LlamaDefaults {
  int64_t positions = 2048;  // max_position_embeddings
  int64_t kv_heads = 0;      // num_key_value_heads; 0: num_attention_heads
  int64_t head_size = 0;     // head_dim; 0: hidden_size / num_attention_heads
  // true: num_attention_heads must divide hidden_size, even if head_dim is given.
  bool heads_divide_hidden = false;
  // The kind of all norms. The epsilon is the field rms_norm_eps or layer_norm_eps accordingly.
  DecoderConfig::Norm norm = DecoderConfig::Norm::rms;
  double norm_epsilon = 1e-6;
  bool tied_head = false;                       // tie_word_embeddings
  const char* activation_field = "hidden_act";  // name of the field with the activation
  const char* activation = "silu";              // default of that field
};

// Reads sizes, norms, activation, attention dropout and tie_word_embeddings. The caller reads the
// rotary embedding (rotary_fields.h) and whether layers have biases. Throws FieldError.
DecoderConfig read_llama_fields(ConfigFields& fields, const LlamaDefaults& defaults);

// Reads Qwen's fields use_sliding_window, sliding_window, max_window_layers and layer_types, and
// sets the windows of config.attention accordingly. Throws FieldError.
void read_qwen_windows(ConfigFields& fields, DecoderConfig& config);

// Returns the names of Llama's weights in files.
WeightNames llama_weight_names(const DecoderConfig& config);

}  // namespace colossal::models
