// What a decoder computes, in our own words: every family's config.json is read into this value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "colossal/models/language_model.h"
#include "colossal/ops/rotary.h"

namespace colossal::models {

// The attention of one layer, where layers differ.
struct LayerAttention {
  double scale = 0;  // of the scores; 0: 1 / sqrt(head_size)
  ops::RotaryOptions rotary{};

  bool operator==(const LayerAttention&) const = default;
};

struct DecoderConfig {
  std::string family;  // model_type of config.json
  int64_t vocabulary = 0;
  int64_t hidden = 0;
  int64_t layers = 0;
  int64_t positions = 0;  // longest sequence

  enum class Norm { rms, layer };
  Norm norm = Norm::rms;
  double norm_epsilon = 1e-5;

  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_size = 0;
  // One for all layers, or one for each.
  std::vector<LayerAttention> attention{{}};
  bool qkv_bias = false;
  bool attention_output_bias = false;

  int64_t inner = 0;  // features between the products of the MLP
  bool gated = true;  // act(gate(x)) * up(x), else act(up(x))
  bool mlp_bias = false;

  bool learned_positions = false;
  bool tied_head = false;
  // Queries, keys and values are one product, and all weights of blocks are stored [in, out].
  bool stored_in_out = false;

  // Standard deviations of new weights; of projections that end on the residual stream 0: the same.
  double initializer_range = 0.02;
  double residual_initializer_range = 0;

  double embedding_dropout = 0;
  double attention_dropout = 0;  // of probabilities
  double residual_dropout = 0;   // where a branch joins the residual stream

  const LayerAttention& attention_of(int64_t layer) const {
    return attention.size() == 1 ? attention.front() : attention.at(layer);
  }
  int64_t query_features() const { return heads * head_size; }
  int64_t key_features() const { return kv_heads * head_size; }
  bool operator==(const DecoderConfig&) const = default;
};

ModelFacts facts(const DecoderConfig& config);

}  // namespace colossal::models
