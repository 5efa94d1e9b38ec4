// Config fields and weight names that Llama shares with many related families.
#pragma once

#include <cstdint>

#include "colossal/models/decoder_fields.h"
#include "colossal/models/weight_names.h"

namespace colossal::models {

// Defaults of transformers that differ between the families.
struct LlamaDefaults {
  int64_t positions = 2048;
  int64_t kv_heads = 0;              // 0: num_attention_heads
  int64_t head_size = 0;             // 0: hidden_size / num_attention_heads
  bool heads_divide_hidden = false;  // true: require it, as transformers does
  DecoderConfig::Norm norm = DecoderConfig::Norm::rms;
  double norm_epsilon = 1e-6;
  bool tied_head = false;
  const char* activation_field = "hidden_act";
  const char* activation = "silu";
};

// Reads sizes, norms, activation, attention dropout and tie_word_embeddings. Throws FieldError.
DecoderConfig read_llama_fields(ConfigFields& fields, const LlamaDefaults& defaults);

// Reads Qwen's use_sliding_window, sliding_window, max_window_layers and layer_types. Throws
// FieldError.
void read_qwen_windows(ConfigFields& fields, DecoderConfig& config);

WeightNames llama_weight_names(const DecoderConfig& config);

}  // namespace colossal::models
