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
  // The sum over the ranks of the group of the features on each rank. A feature may be on several
  // ranks, on the same number r for all features; it then counts r times. If r > 1, gradients are
  // split into terms: the gradient of the output is the sum of what the r ranks pass to the
  // backward pass, and each gradient of an input is the sum of what the r ranks get from it. The
  // caller must compute this last sum.
  int64_t features = 0;
};

// Returns this rank's features of the norm of x. x: [.., features on this rank]; weight, bias:
// [features on this rank], or undefined. Differentiable. The group must outlive the backward pass.
// Law: the statistics are all-reduced in fp32 (fp64 for fp64).
//   layer norm  forward: one number per token (mean), then one (variance); backward: two per token
//   RMS norm    forward: one number per token (mean square); backward: one per token
at::Tensor shared_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       const SharedNormOptions& options, const comm::Group& group);

// Returns the sum x + branch, then its shared_norm().
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
