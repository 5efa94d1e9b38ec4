// What a decoder computes, in terms that all families share: every config.json is converted to a
// DecoderConfig.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "colossal/models/language_model.h"
#include "colossal/nn/builder.h"
#include "colossal/ops/activation.h"
#include "colossal/ops/clamped_gate.h"
#include "colossal/ops/rotary.h"

namespace colossal::models {

// The attention settings that may differ between layers.
struct LayerAttention {
  double scale = 0;    // multiplies the scores; 0: 1 / sqrt(head_size)
  int64_t window = 0;  // sliding window: keys that a query sees, its own included; 0: no limit
  ops::RotaryOptions rotary{};

  bool operator==(const LayerAttention&) const = default;
};

struct DecoderConfig {
  std::string family;  // model_type in config.json
  int64_t vocabulary = 0;
  int64_t hidden = 0;
  int64_t layers = 0;
  int64_t positions = 0;  // maximum sequence length

  // Before the blocks: embedding(tokens) * embedding_scale + learned positions, then a norm, then
  // dropout.
  double embedding_scale = 1;
  bool learned_positions = false;
  int64_t position_offset = 0;  // unused rows at the start of the position table
  bool embedding_norm = false;
  // The model is an EAGLE draft model: the input of its blocks is a linear layer of the token's
  // embedding concatenated with the target model's final hidden state of the previous token (Y. Li
  // et al., "EAGLE: Speculative Sampling Requires Rethinking Feature Uncertainty", 2024).
  bool is_draft_head = false;

  enum class Norm { rms, layer };
  Norm norm = Norm::rms;
  double norm_epsilon = 1e-5;
  bool norm_weight = true;        // false: norms have no parameters
  bool norm_bias = true;          // layer norms only
  bool norm_unit_offset = false;  // norms multiply by 1 + weight

  // Where the norms of a block's two branches (attention and MLP) are.
  enum class NormPlace {
    before,   // x + branch(norm(x))
    after,    // x + norm(branch(x))
    around,   // x + norm(branch(norm(x)))
    residual  // norm(x + branch(x))
  };
  NormPlace norm_place = NormPlace::before;
  bool residual_of_norm = false;  // with NormPlace::before: norm(x) + branch(norm(x))
  // Both branches read the block's input: x + attention(norm(x)) + mlp(norm(x)). shared_norm: both
  // branches use the same norm (B. Wang, GPT-J, 2021).
  bool parallel_branches = false;
  bool shared_norm = false;
  double branch_scale = 1;  // multiplies the output of each branch
  bool final_norm = true;

  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_size = 0;   // features per query or key head
  int64_t value_size = 0;  // features per value head; 0: head_size
  // Multi-head latent attention (see nn::LatentAttentionOptions) if key_value_rank > 0. Rotary
  // embedding is applied to the first rotary.channels features of each query and key head.
  int64_t query_rank = 0;  // 0: queries are not down-projected
  int64_t key_value_rank = 0;
  // A single entry for all layers, or one entry per layer.
  std::vector<LayerAttention> attention{{}};
  bool qkv_bias = false;  // with latent attention: biases of the down-projections
  bool attention_output_bias = false;
  nn::QueryKeyNormOptions query_key_norm{};
  double attention_soft_cap = 0;  // 0: none
  double alibi = 0;               // factor of the ALiBi slopes; 0: no ALiBi
  // The softmax of each head includes one more learned logit, which belongs to no key.
  bool attention_sinks = false;

  int64_t inner = 0;  // intermediate size of the MLP
  bool gated = true;  // act(gate(x)) * up(x), else act(up(x))
  ops::Activation activation = ops::Activation::silu;
  bool mlp_up_bias = false;
  bool mlp_down_bias = false;

  // Mixture of experts: if router.experts > 0, experts with intermediate size `expert_inner`
  // replace the MLP in the layers whose entry in layers_with_experts is true (empty: in all
  // layers).
  nn::RouterOptions router{};
  int64_t expert_inner = 0;
  std::optional<ops::ClampedGate> clamped_gate{};  // replaces the experts' activation
  nn::RouterLosses router_losses{};
  std::vector<bool> layers_with_experts{};
  // Shared expert: an MLP with intermediate size `shared_inner` (0: none) that processes all
  // tokens, in addition to the routed experts. shared_gate: its output is multiplied by the sigmoid
  // of one logit per token, from a linear layer.
  int64_t shared_inner = 0;
  bool shared_gate = false;

  bool score_head = false;  // reward model: outputs one score per position instead of logits
  // Outputs one value per position (the expected reward) in addition to the logits.
  bool value_head = false;
  bool tied_head = false;
  bool head_bias = false;
  double logit_scale = 1;
  double logit_soft_cap = 0;  // 0: none

  // Parameters are laid out as in GPT-2: queries, keys and values are one linear layer, and the
  // blocks' linear weights are [in, out].
  bool stored_in_out = false;

  // Standard deviation of newly initialized weights. residual_initializer_range: for linear layers
  // whose output is added to the residual stream; 0: initializer_range.
  double initializer_range = 0.02;
  double residual_initializer_range = 0;

  double embedding_dropout = 0;
  double attention_dropout = 0;         // of attention probabilities
  double attention_output_dropout = 0;  // of the attention branch's output
  double mlp_dropout = 0;               // of the MLP branch's output
  // With parallel branches: both branches use the same dropout mask.
  bool one_branch_dropout = false;

  const LayerAttention& attention_of(int64_t layer) const {
    return attention.size() == 1 ? attention.front() : attention.at(layer);
  }
  bool has_experts(int64_t layer) const {
    return router.experts > 0 && (layers_with_experts.empty() || layers_with_experts.at(layer));
  }
  int64_t query_features() const { return heads * head_size; }
  int64_t key_features() const { return kv_heads * head_size; }
  int64_t size_of_value() const { return value_size > 0 ? value_size : head_size; }
  int64_t attended_features() const { return heads * size_of_value(); }
  // Size of the KV cache per token and layer: number of key heads (= value heads), and features of
  // all keys and values together. of_latents: the cache stores latents instead of heads.
  int64_t key_value_cache_heads(bool of_latents) const { return of_latents ? 1 : kv_heads; }
  int64_t key_value_cache_features(bool of_latents) const {
    const int64_t rotary = attention.front().rotary.channels;
    return of_latents ? rotary + 2 * key_value_rank : kv_heads * (head_size + size_of_value());
  }
  bool has_latents() const { return key_value_rank > 0; }
  bool has_norm_before() const {
    return norm_place == NormPlace::before || norm_place == NormPlace::around;
  }
  bool operator==(const DecoderConfig&) const = default;
};

ModelFacts facts(const DecoderConfig& config);

}  // namespace colossal::models
