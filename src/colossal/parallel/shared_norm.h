// Norms over features that are divided among the ranks of a group.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

#include "colossal/comm/group.h"
#include "colossal/nn/layers.h"
#include "colossal/nn/norm_parts.h"

namespace colossal::parallel {

struct SharedNormOptions {
  bool centered = false;  // true: ops::layer_norm(); false: ops::rms_norm()
  double epsilon = 0;
  bool unit_offset = false;
  // Sum of the ranks' feature counts: a feature that several ranks hold counts once for each of
  // them. If each feature is held equally often, the statistics are those of the features counted
  // once. In the backward pass, each rank then gets and returns only its part of a feature's
  // gradient; the caller sums the parts over the ranks that hold the feature.
  int64_t features = 0;
};

// Returns this rank's features of the norm of x [.., features on this rank]. weight, bias:
// [features on this rank], or undefined. Statistics are sent in fp32, for fp64 in fp64. Forward: a
// layer norm all-reduces one number per token twice (mean, then variance), an RMS norm once (mean
// square). Backward: one all-reduce, of two numbers per token for a layer norm and one for an RMS
// norm. The group must outlive the backward pass.
at::Tensor shared_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       const SharedNormOptions& options, const comm::Group& group);

// Returns {x + branch, norm of (x + branch)}, like ops::add_layer_norm() or ops::add_rms_norm().
std::pair<at::Tensor, at::Tensor> add_shared_norm(const at::Tensor& x, const at::Tensor& branch,
                                                  const at::Tensor& weight, const at::Tensor& bias,
                                                  const SharedNormOptions& options,
                                                  const comm::Group& group);

class SharedNormLayer : public nn::Norm {
 public:
  // replicas: how many ranks of the group hold each feature. The group must outlive the layer.
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
