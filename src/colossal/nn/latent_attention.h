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
    std::unique_ptr<Linear> query;  // from the activation; null if queries come from latents
    // To the latents of queries (if query_rank > 0), and of keys and values.
    std::unique_ptr<Linear> down;
    // Redistributes the latents from the ranks that hold the activation to the ranks that hold the
    // heads. Null: nothing to move.
    LowRankAdapter::Move move;
    std::vector<ParameterHandle> down_biases;  // one per down-projection, or empty
    // Norms of latents; query_norm is null if `query` is set.
    std::unique_ptr<Norm> query_norm, key_value_norm;
    std::unique_ptr<Linear> query_up;  // to this rank's heads; null if `query` is set
    std::unique_ptr<Linear> key_value_up;
    ParameterHandle key_value_weight;  // the weight of key_value_up
    // Attention over the keys and values of each head, as in training.
    std::unique_ptr<Attention> attention;
    // Attention over latents, which all heads share and which the key-value store keeps. Null if
    // key_value_up has an adapter: the store then keeps keys and values of each head.
    std::unique_ptr<Attention> of_latents;
  };

  LatentAttentionLayer(const LatentAttentionOptions& options, Parts parts)
      : options_(options), parts_(std::move(parts)) {}

  at::Tensor forward(const at::Tensor& x, const StepContext& context) override;

 private:
  struct OfToken {
    at::Tensor queries;  // [.., heads on this rank * head_size], in each head rotary features first
    at::Tensor latent;   // [.., key_value_rank], after the norm
    at::Tensor rotary;   // [.., rotary], the keys' features with rotary embedding
  };
  OfToken project(const at::Tensor& x, const StepContext& context);
  at::Tensor latents(const at::Tensor& x, const StepContext& context);
  at::Tensor attend_by_heads(const OfToken& token, const StepContext& context);
  // Mathematically equal to attend_by_heads(), with the up-projection W absorbed into queries and
  // outputs: q (W c) = (q W) c, and sum of p (W c) = W (sum of p c).
  at::Tensor attend_absorbed(const OfToken& token, const StepContext& context);

  LatentAttentionOptions options_;
  Parts parts_;
};

}  // namespace colossal::nn
