// Norms of tokens whose features are divided among the ranks of a group.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

#include "colossal/comm/group.h"
#include "colossal/nn/layers.h"
#include "colossal/nn/norm_parts.h"

namespace colossal::parallel {

struct SharedNormOptions {
  bool centered = false;  // as ops::layer_norm(), else as ops::rms_norm()
  double epsilon = 0;
  bool unit_offset = false;
  // The features of all ranks of the group together. A feature that several ranks hold counts for
  // each of them. So if several ranks hold a head, the norm is still that of the heads, and each
  // rank's gradient stays its own part.
  int64_t features = 0;
};

// Returns the norm of x [.., features here]. weight and bias: [features here], or undefined for
// none. Statistics travel in fp32 (fp64 for fp64). Forward, a layer norm sends its mean and then
// its variance, an RMS norm its mean square: an all-reduce of a number a token each. Backward, one
// all-reduce has two numbers a token, for an RMS norm one. The group must outlive the backward
// pass.
at::Tensor shared_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       const SharedNormOptions& options, const comm::Group& group);

// Returns {x + branch, its norm}, as ops::add_layer_norm() or ops::add_rms_norm().
std::pair<at::Tensor, at::Tensor> add_shared_norm(const at::Tensor& x, const at::Tensor& branch,
                                                  const at::Tensor& weight, const at::Tensor& bias,
                                                  const SharedNormOptions& options,
                                                  const comm::Group& group);

class SharedNormLayer : public nn::Norm {
 public:
  // replicas: ranks of the group that have the same features.
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
