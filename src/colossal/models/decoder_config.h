// What a decoder computes, in our own words: every family's config.json is read into this value.
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

// The attention of one layer, where layers differ.
struct LayerAttention {
  double scale = 0;    // of the scores; 0: 1 / sqrt(head_size)
  int64_t window = 0;  // keys that a query sees, itself included; 0: all up to itself
  ops::RotaryOptions rotary{};

  bool operator==(const LayerAttention&) const = default;
};

struct DecoderConfig {
  std::string family;  // model_type of config.json
  int64_t vocabulary = 0;
  int64_t hidden = 0;
  int64_t layers = 0;
  int64_t positions = 0;  // longest sequence

  // Before the blocks: tokens * embedding_scale + learned positions, a norm, dropout.
  double embedding_scale = 1;
  bool learned_positions = false;
  int64_t position_offset = 0;  // the first so many learned positions are never used
  bool embedding_norm = false;
  // It guesses for another model (Y. Li et al. 2024, "EAGLE: Speculative Sampling Requires
  // Rethinking Feature Uncertainty"): its blocks begin with a product of each token's embedding and
  // of the final state that the other model has computed of the token before.
  bool reads_states = false;

  enum class Norm { rms, layer };
  Norm norm = Norm::rms;
  double norm_epsilon = 1e-5;
  bool norm_weight = true;        // false: norms have no parameters
  bool norm_bias = true;          // of layer norms
  bool norm_unit_offset = false;  // 1 + weight multiplies

  // Where a block's two branches, attention and MLP, have norms.
  enum class NormPlace {
    before,   // x + branch(norm(x))
    after,    // x + norm(branch(x))
    around,   // x + norm(branch(norm(x)))
    residual  // norm(x + branch(x))
  };
  NormPlace norm_place = NormPlace::before;
  bool residual_of_norm = false;  // norms before: norm(x) + branch(norm(x))
  // Both branches read the block's input (B. Wang, GPT-J, 2021): x + attention(norm(x)) +
  // mlp(norm(x)). shared_norm: one norm for both.
  bool parallel_branches = false;
  bool shared_norm = false;
  double branch_scale = 1;  // multiplies what a branch adds
  bool final_norm = true;

  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_size = 0;   // of queries and keys
  int64_t value_size = 0;  // of a head of values; 0: head_size
  // Latent attention (see nn::LatentAttentionOptions) where key_value_rank > 0: heads of queries
  // and keys begin with those features that turn, as many as rotary.channels.
  int64_t query_rank = 0;  // 0: queries have no latents
  int64_t key_value_rank = 0;
  // One for all layers, or one for each.
  std::vector<LayerAttention> attention{{}};
  bool qkv_bias = false;  // of latent attention: of the products to latents
  bool attention_output_bias = false;
  nn::QueryKeyNormOptions query_key_norm{};
  double attention_soft_cap = 0;  // 0: none
  double alibi = 0;               // factor of ALiBi's slopes; 0: none
  bool attention_sinks = false;   // a logit for each head that no key has

  int64_t inner = 0;  // features between the products of the MLP
  bool gated = true;  // act(gate(x)) * up(x), else act(up(x))
  ops::Activation activation = ops::Activation::silu;
  bool mlp_up_bias = false;
  bool mlp_down_bias = false;

  // If router.experts > 0, experts of `expert_inner` features replace the one MLP, in the layers
  // that layers_with_experts says (empty: in all).
  nn::RouterOptions router{};
  int64_t expert_inner = 0;
  std::optional<ops::ClampedGate> clamped_gate{};  // of experts, in place of the activation
  nn::RouterLosses router_losses{};
  std::vector<bool> layers_with_experts{};
  // Beside them an MLP of so many features that all tokens go through; 0: none. With a gate, its
  // result is multiplied by the sigmoid of a product of the token.
  int64_t shared_inner = 0;
  bool shared_gate = false;

  bool score_head = false;  // a number for each position in place of logits: a reward model
  bool value_head = false;  // beside the logits a number for each position: the reward to expect
  bool tied_head = false;
  bool head_bias = false;
  double logit_scale = 1;
  double logit_soft_cap = 0;  // 0: none

  // Queries, keys and values are one product, and all weights of blocks are stored [in, out].
  bool stored_in_out = false;

  // Standard deviations of new weights, and of projections onto the residual stream (0: the same).
  double initializer_range = 0.02;
  double residual_initializer_range = 0;

  double embedding_dropout = 0;
  double attention_dropout = 0;         // of attention probabilities
  double attention_output_dropout = 0;  // where the attention joins the residual stream
  double mlp_dropout = 0;               // where the MLP does
  bool one_branch_dropout = false;      // both are one, of the sum of parallel branches

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
  // Of a token, in each layer of a key-value store: keys and values of heads, or of latents.
  int64_t kept_heads(bool of_latents) const { return of_latents ? 1 : kv_heads; }
  int64_t kept_features(bool of_latents) const {
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
