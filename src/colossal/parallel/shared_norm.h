// Norms of tokens whose features the ranks of a group share out.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

#include "colossal/comm/group.h"

namespace colossal::parallel {

// Of x [.., features here], of `features` in all, as ops::layer_norm() or, where bias is undefined,
// ops::rms_norm(); weight and bias [features here]. Statistics travel in fp32 (fp64 for fp64): a
// layer norm's mean and then its variance, one all-reduce of a number a token each, an RMS norm's
// mean square; backward one of two numbers a token, an RMS norm's of one. The group must outlive
// the backward pass.
at::Tensor shared_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       double epsilon, int64_t features, const comm::Group& group);

// {x + branch, its norm}, as ops::add_layer_norm() or ops::add_rms_norm().
std::pair<at::Tensor, at::Tensor> add_shared_norm(const at::Tensor& x, const at::Tensor& branch,
                                                  const at::Tensor& weight, const at::Tensor& bias,
                                                  double epsilon, int64_t features,
                                                  const comm::Group& group);

}  // namespace colossal::parallel
