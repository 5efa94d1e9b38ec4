// Norms of tokens whose features the ranks of a group share out.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "colossal/comm/group.h"

namespace colossal::parallel {

// Of x [.., features here], of `features` in all, as ops::layer_norm() and ops::rms_norm(); weight
// and bias [features here]. Statistics travel in fp32 (fp64 for fp64): a layer norm's mean and then
// its variance, one all-reduce of a number a token each, an RMS norm's mean square; backward two,
// an RMS norm's one. The group must outlive the backward pass.
at::Tensor shared_layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                             double epsilon, int64_t features, const comm::Group& group);
at::Tensor shared_rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon,
                           int64_t features, const comm::Group& group);

}  // namespace colossal::parallel
