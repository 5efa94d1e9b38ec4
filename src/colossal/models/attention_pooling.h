// AttentionPooling: the head of SigLIP's tower for images (X. Zhai et al., "Sigmoid Loss for
// Language Image Pre-Training", 2023), in which a learned token attends to all tokens of an image.
#pragma once

#include <memory>
#include <optional>

#include "colossal/models/transformer_config.h"
#include "colossal/nn/builder.h"
#include "colossal/nn/learned_token.h"
#include "colossal/nn/pooled_projection.h"
#include "colossal/ops/activation.h"

namespace colossal::models {

// y = attention of the probe to x, then y + MLP(norm(y)); the sizes, activation and biases are
// those of the tower's blocks. The names of the layers begin with "pooling.".
class AttentionPooling {
 public:
  AttentionPooling(nn::Builder& build, const TransformerConfig& config);

  // x: an activation between blocks. context: of the images. Returns the vector of each image,
  // [batch, hidden], as nn::PooledProjection::forward() does.
  at::Tensor forward(const at::Tensor& x, const nn::StepContext& context) const;

 private:
  std::optional<nn::LearnedToken> probe_;
  std::unique_ptr<nn::Linear> query_, key_value_, attention_output_, mlp_up_, mlp_down_;
  std::unique_ptr<nn::CrossAttention> attention_;
  std::unique_ptr<nn::Norm> mlp_norm_;
  ops::Activation activation_;
  std::optional<nn::PooledProjection> pooled_;  // without a projection
};

// Returns the number of its parameters.
int64_t attention_pooling_parameters(const TransformerConfig& config);

}  // namespace colossal::models
