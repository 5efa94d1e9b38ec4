// What config.json and the files of Llama have in common with those of its many relatives.
#pragma once

#include "colossal/models/config_fields.h"
#include "colossal/models/decoder_config.h"
#include "colossal/models/weight_names.h"

namespace colossal::models {

// Where transformers' defaults for the relatives differ.
struct LlamaDefaults {
  int64_t positions = 2048;
  int64_t kv_heads = 0;   // 0: as many as heads of queries
  int64_t head_size = 0;  // 0: hidden_size / num_attention_heads
  double norm_epsilon = 1e-6;
  double rotary_base = 10000;
  bool tied_head = false;
};

// Sizes, norms, rotary positions, dropout and whether the head is tied. Throws FieldError.
DecoderConfig read_llama_fields(ConfigFields& fields, const LlamaDefaults& defaults);

WeightNames llama_weight_names();

}  // namespace colossal::models
