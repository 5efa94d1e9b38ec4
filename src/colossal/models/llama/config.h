// config.json of the Llama family (transformers' LlamaConfig, and Qwen2Config, which is the same
// model with biases of its own): the fields that shape the computation.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "colossal/models/language_model.h"
#include "colossal/ops/rotary.h"

namespace colossal::models::llama {

struct Config {
  bool is_qwen2 = false;
  int64_t vocab_size = 32000;
  int64_t hidden_size = 4096;
  int64_t intermediate_size = 11008;
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  int64_t num_key_value_heads = 32;
  int64_t head_dim = 128;
  int64_t max_position_embeddings = 2048;
  double rms_norm_eps = 1e-6;
  double initializer_range = 0.02;
  double attention_dropout = 0;
  bool attention_bias = false;  // Llama: of all four products; Qwen2: always of the first three
  bool mlp_bias = false;
  bool tie_word_embeddings = false;
  ops::RotaryOptions rotary{.base = 10000};

  bool qkv_bias() const { return attention_bias || is_qwen2; }
  bool output_bias() const { return attention_bias; }
  bool operator==(const Config&) const = default;
};

// Throws ConfigError, naming the field, for one that is missing, of a wrong type, absurd, or that
// asks for what this model does not compute.
Config parse_config(const nlohmann::json& json);
// transformers 5 says base and scaling of the rotary positions in one object, rope_parameters;
// before, the base was rope_theta, the rest rope_scaling. The same in the older way, which a run's
// settings may then override one by one.
nlohmann::json with_older_rotary_fields(nlohmann::json json);
// With everything that transformers needs to open the folder.
nlohmann::json to_json(const Config& config);
ModelFacts facts(const Config& config);

}  // namespace colossal::models::llama
