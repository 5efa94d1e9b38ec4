// GPT-2's config.json (transformers' GPT2Config): the fields that shape the computation.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "colossal/models/language_model.h"

namespace colossal::models::gpt2 {

struct Config {
  int64_t vocab_size = 50257;
  int64_t n_positions = 1024;
  int64_t n_embd = 768;
  int64_t n_layer = 12;
  int64_t n_head = 12;
  int64_t n_inner = 0;  // 0: 4 * n_embd
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  double embd_pdrop = 0.1;
  double attn_pdrop = 0.1;
  double resid_pdrop = 0.1;
  bool tie_word_embeddings = true;

  int64_t inner() const { return n_inner > 0 ? n_inner : 4 * n_embd; }
  bool operator==(const Config&) const = default;
};

// Throws ConfigError, naming the field, for one that is missing, of a wrong type, absurd, or that
// asks for what this model does not compute.
Config parse_config(const nlohmann::json& json);
// With everything that transformers needs to open the folder.
nlohmann::json to_json(const Config& config);
ModelFacts facts(const Config& config);

}  // namespace colossal::models::gpt2
