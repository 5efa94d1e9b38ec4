// Layer norm and RMS norm over features that are divided among the ranks of a group: the ranks sum
// their statistics, not the features. Tensor parallelism in 2d, 2.5d and 3d uses it for the norms
// between blocks; norms over all attention heads use it in every tensor mode.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

#include "colossal/comm/group.h"
#include "colossal/nn/layers.h"
#include "colossal/nn/norm_parts.h"

namespace colossal::parallel {

struct SharedNormOptions {
  bool centered = false;  // true: layer norm; false: RMS norm
  double epsilon = 0;
  bool unit_offset = false;  // true: multiply by 1 + weight
  // r times the number of features in the norm, if each feature is on r ranks of the group. r is
  // the same for all features.
  //
  // If r > 1, each of a feature's r ranks has one part of the feature's gradient; the gradient is
  // the sum of the r parts. The backward pass expects such parts as the gradient of the output, and
  // returns such parts as the gradients of x, weight and bias. It does not sum the parts: whoever
  // needs a whole gradient must do so.
  int64_t features = 0;
};

// Returns this rank's features of the norm of x. x: [.., features on this rank]; weight, bias:
// [features on this rank], or undefined. Differentiable. The group must outlive the backward pass.
// Law: the statistics are all-reduced in fp32 (fp64 for fp64).
//   layer norm  forward: one number per token (mean), then one (variance); backward: two per token
//   RMS norm    forward: one number per token (mean square); backward: one per token
at::Tensor shared_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       const SharedNormOptions& options, const comm::Group& group);

// Returns {x + branch, shared_norm(x + branch)}. branch: of x's sizes and type.
std::pair<at::Tensor, at::Tensor> add_shared_norm(const at::Tensor& x, const at::Tensor& branch,
                                                  const at::Tensor& weight, const at::Tensor& bias,
                                                  const SharedNormOptions& options,
                                                  const comm::Group& group);

// The norm layer that computes shared_norm().
class SharedNormLayer : public nn::Norm {
 public:
  // group: the ranks among which the features are divided; must outlive the layer. replicas: number
  // of ranks of the group that hold each feature.
  SharedNormLayer(nn::NormParts parts, const comm::Group& group, int replicas = 1)
      : parts_(std::move(parts)), group_(group), replicas_(replicas) {}
  at::Tensor forward(const at::Tensor& x, const nn::StepContext& context) override;
  std::pair<at::Tensor, at::Tensor> add_forward(const at::Tensor& x, const at::Tensor& branch,
                                                const nn::StepContext& context) override;

 private:
  SharedNormOptions options() const {
    return {parts_.centered, parts_.epsilon, parts_.unit_offset, parts_.features * replicas_};
  }

  nn::NormParts parts_;
  const comm::Group& group_;
  int replicas_;
};

}  // namespace colossal::parallel
