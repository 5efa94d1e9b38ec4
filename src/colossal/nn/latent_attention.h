// Latent attention (DeepSeek-AI 2024, "DeepSeek-V2", 2.1), see LatentAttentionOptions.
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
    std::unique_ptr<Linear> query;  // of the activation; null: of latents
    std::unique_ptr<Linear> down;   // to the latents of queries, if any, and of keys and values
    // What the ranks that share a token do with these, to bring them from where the activation
    // lies to where its heads do. Null: nothing.
    LowRankAdapter::Move move;
    std::vector<ParameterHandle> down_biases;          // of each product to latents, or none
    std::unique_ptr<Norm> query_norm, key_value_norm;  // of latents; the first may be null
    std::unique_ptr<Linear> query_up;                  // to the heads here; null as `query` is not
    std::unique_ptr<Linear> key_value_up;
    ParameterHandle key_value_weight;  // of key_value_up
    // Among keys and values of each head, as the model is trained.
    std::unique_ptr<Attention> attention;
    // Among latents, which all heads have in common, as a key-value store keeps them. Null: it
    // keeps those of each head, as key_value_up is adapted.
    std::unique_ptr<Attention> of_latents;
  };

  LatentAttentionLayer(const LatentAttentionOptions& options, Parts parts)
      : options_(options), parts_(std::move(parts)) {}

  at::Tensor forward(const at::Tensor& x, const StepContext& context) override;

 private:
  struct OfToken {
    at::Tensor queries;  // [.., heads here * head_size], turning features first in each
    at::Tensor latent;   // [.., key_value_rank], normed
    at::Tensor rotary;   // [.., rotary], the part of keys that turns
  };
  OfToken project(const at::Tensor& x, const StepContext& context);
  at::Tensor latents(const at::Tensor& x, const StepContext& context);
  at::Tensor attend_by_heads(const OfToken& token, const StepContext& context);
  // The same numbers: q (W c) = (q W) c, and the sum of p (W c) = W (the sum of p c).
  at::Tensor attend_by_latents(const OfToken& token, const StepContext& context);

  LatentAttentionOptions options_;
  Parts parts_;
};

}  // namespace colossal::nn
