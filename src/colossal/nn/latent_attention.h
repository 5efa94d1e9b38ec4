// The layer of multi-head latent attention, MLA (DeepSeek-AI 2024, "DeepSeek-V2", 2.1), from the
// hidden state to the heads' outputs. Builders make it; LatentAttentionOptions (builder.h) lists
// the parameters.
//
// Terms. Linear layers project each token down to a few features, called latents; other linear
// layers project latents up to the queries, keys and values of heads. Sizes have the names of
// LatentAttentionOptions: query_rank and key_value_rank latents; a query or key head has `rotary`
// features with rotary embedding and `plain` features without it; a value head has `value`
// features. All key heads have the same rotary features.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "colossal/nn/builder.h"
#include "colossal/nn/low_rank_adapter.h"

namespace colossal::nn {

class LatentAttentionLayer : public LatentAttention {
 public:
  struct Parts {
    // Projects the activation to the queries of this rank's heads; null if query_rank > 0.
    std::unique_ptr<Linear> query;
    // The fused down-projections, without biases. Outputs, concatenated: query_rank latents of the
    // queries (none if 0), key_value_rank latents of keys and values, `rotary` features of the
    // keys.
    std::unique_ptr<Linear> down;
    // Converts the outputs of `down` from the layout of the activation to the layout in which every
    // rank with heads of a token has all latents of that token. Null: the two layouts are the same.
    LowRankAdapter::Move move;
    // One per down-projection, in the order of the outputs of `down`; added after `move`. Empty:
    // there are no biases.
    std::vector<ParameterHandle> down_biases;
    // Norms of the latents of the queries, and of the latents of keys and values. query_norm is
    // null if query_rank is 0.
    std::unique_ptr<Norm> query_norm, key_value_norm;
    // Projects latents to the queries of this rank's heads; null if query_rank is 0.
    std::unique_ptr<Linear> query_up;
    // Projects latents, for each of this rank's heads, to the `plain` features of its key and to
    // its value.
    std::unique_ptr<Linear> key_value_up;
    ParameterHandle key_value_weight;  // the weight of key_value_up
    // Attends to the keys and values of each head. Used in forward passes without a KV cache, and
    // in all forward passes if absorbed_attention is null.
    std::unique_ptr<Attention> attention;
    // Used in forward passes with a KV cache: attends to rotary features and latents, which serve
    // all heads as keys (latents also as values). Null if key_value_up has an adapter: the KV cache
    // then keeps the keys and values of each head.
    std::unique_ptr<Attention> absorbed_attention;
  };

  LatentAttentionLayer(const LatentAttentionOptions& options, Parts parts)
      : options_(options), parts_(std::move(parts)) {}

  // x: the hidden state, in the layout that Parts::query and Parts::down take. Returns the outputs
  // of this rank's heads, [.., heads on this rank * value], before the output projection.
  at::Tensor forward(const at::Tensor& x, const StepContext& context) override;

 private:
  // The projections of the tokens from which attention is computed.
  struct TokenProjections {
    // [.., heads on this rank * head_size], before the rotary embedding. In each head, rotary
    // features precede plain features.
    at::Tensor queries;
    at::Tensor latent;  // [.., key_value_rank]: latents of keys and values, after the norm
    at::Tensor rotary;  // [.., rotary]: rotary features of the keys, before the rotary embedding
  };
  TokenProjections project(const at::Tensor& x, const StepContext& context);
  // Returns the outputs of Parts::down, after `move` and with biases.
  at::Tensor latents(const at::Tensor& x, const StepContext& context);
  // Computes attention with keys and values of each head. Returns [.., heads on this rank *
  // `value`].
  at::Tensor attend_by_heads(const TokenProjections& token, const StepContext& context);
  // Computes the same result (but for rounding) from latents c, without the keys and values of
  // heads. The up-projection W of a head is absorbed into its query q and its output: q (W c) = (q
  // W) c, and sum_i p_i (W c_i) = W (sum_i p_i c_i), with attention weights p.
  at::Tensor attend_absorbed(const TokenProjections& token, const StepContext& context);

  LatentAttentionOptions options_;
  Parts parts_;
};

}  // namespace colossal::nn
