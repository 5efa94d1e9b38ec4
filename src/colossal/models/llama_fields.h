// Many families share fields of config.json and names of weights with Llama. These functions read
// the fields and return the names.
#pragma once

#include <cstdint>

#include "colossal/models/transformer_fields.h"
#include "colossal/models/weight_names.h"

namespace colossal::models {

// What differs between these families: the defaults that Hugging Face transformers has for missing
// fields, some names of fields, the kind of the norms, and a check of the number of heads.
struct LlamaDefaults {
  int64_t positions = 2048;  // max_position_embeddings
  int64_t head_size = 0;     // head_dim; 0: hidden_size / num_attention_heads
  // true: num_attention_heads must divide hidden_size, even if head_dim is given.
  bool heads_divide_hidden = false;
  // The kind of all norms. The epsilon is the field rms_norm_eps or layer_norm_eps accordingly.
  TransformerConfig::Norm norm = TransformerConfig::Norm::rms;
  double norm_epsilon = 1e-6;
  bool tied_head = false;                       // tie_word_embeddings
  const char* activation_field = "hidden_act";  // name of the field with the activation
  const char* activation = "silu";              // default of that field
};

// Reads sizes, norms, activation, attention dropout, initializer_range and tie_word_embeddings. The
// caller reads the rotary embedding (rotary_fields.h) and whether layers have biases. Throws
// FieldError if a field without a default is missing, or if a field is invalid.
TransformerConfig read_llama_fields(ConfigFields& fields, const LlamaDefaults& defaults);

// Reads use_sliding_window and sliding_window. Returns the window in tokens; 0: none is used.
// fallback: the window if one is used but sliding_window is missing; 0: none.
int64_t read_used_window(ConfigFields& fields, int64_t fallback);

// Reads Qwen's fields use_sliding_window, sliding_window, max_window_layers and layer_types. If
// use_sliding_window is true and sliding_window is above 0, gives a window of sliding_window tokens
// to the layers that layer_types calls "sliding_attention" or, without layer_types, to the layers
// from number max_window_layers on (numbered from 0); config.attention then has one entry per
// layer. Before the call, config.layers must be set, and config.attention must have a single entry,
// whose other fields (such as the rotary embedding) are copied to all layers. Throws FieldError if
// a field is invalid.
void read_qwen_windows(ConfigFields& fields, TransformerConfig& config);

// Returns the names of Llama's weights in files.
WeightNames llama_weight_names(const TransformerConfig& config);

}  // namespace colossal::models
