// The products before latent attention, see LatentProjectionOptions.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "colossal/nn/builder.h"
#include "colossal/nn/low_rank_adapter.h"

namespace colossal::nn {

class LatentProjection : public Linear {
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
  };

  LatentProjection(const LatentProjectionOptions& options, Parts parts)
      : options_(options), parts_(std::move(parts)) {}

  // [.., hidden] -> [batch, sequence, heads here * (2 head_size + value)]: queries, keys, values.
  at::Tensor forward(const at::Tensor& x, const StepContext& context) override;

 private:
  at::Tensor latents(const at::Tensor& x, const StepContext& context);

  LatentProjectionOptions options_;
  Parts parts_;
};

}  // namespace colossal::nn
