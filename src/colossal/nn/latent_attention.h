// Multi-head latent attention (DeepSeek-AI 2024, "DeepSeek-V2", 2.1); see LatentAttentionOptions.
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
    std::unique_ptr<Linear> query;  // projects the activation to queries; null if query_rank > 0
    // Projects the activation to, concatenated: latents of queries (if query_rank > 0), latents of
    // keys and values, rotary features of keys. Without biases.
    std::unique_ptr<Linear> down;
    // Redistributes the latents from the ranks that hold the activation to the ranks that hold the
    // heads. Null: nothing to move.
    LowRankAdapter::Move move;
    // One per down-projection, added after `move`; or empty.
    std::vector<ParameterHandle> down_biases;
    // Norms of the latents; query_norm is null if `query` is set.
    std::unique_ptr<Norm> query_norm, key_value_norm;
    std::unique_ptr<Linear> query_up;  // to queries of this rank's heads; null if `query` is set
    std::unique_ptr<Linear> key_value_up;  // to non-rotary keys and values of this rank's heads
    ParameterHandle key_value_weight;      // the weight of key_value_up
    // Over the keys and values of each head. Used without a KV cache, or if absorbed_attention is
    // null.
    std::unique_ptr<Attention> attention;
    // Used with a KV cache: over latents and rotary features, which serve as keys of all heads.
    // Null if key_value_up has an adapter: the cache then keeps keys and values of each head.
    std::unique_ptr<Attention> absorbed_attention;
  };

  LatentAttentionLayer(const LatentAttentionOptions& options, Parts parts)
      : options_(options), parts_(std::move(parts)) {}

  at::Tensor forward(const at::Tensor& x, const StepContext& context) override;

 private:
  // What attention needs of each token.
  struct TokenProjections {
    // [.., heads on this rank * head_size]; in each head, rotary features precede the others.
    at::Tensor queries;
    at::Tensor latent;  // [.., key_value_rank], after the norm
    at::Tensor rotary;  // [.., rotary], the rotary features of the keys, not yet rotated
  };
  TokenProjections project(const at::Tensor& x, const StepContext& context);
  // Returns what Parts::down computes, after `move` and with biases.
  at::Tensor latents(const at::Tensor& x, const StepContext& context);
  at::Tensor attend_by_heads(const TokenProjections& token, const StepContext& context);
  // Mathematically equal to attend_by_heads(), with the up-projection W absorbed into queries and
  // outputs: q (W c) = (q W) c, and sum of p (W c) = W (sum of p c).
  at::Tensor attend_absorbed(const TokenProjections& token, const StepContext& context);

  LatentAttentionOptions options_;
  Parts parts_;
};

}  // namespace colossal::nn
