// Layer norm and RMS norm. Differentiable, on any device and on meta.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

namespace colossal::ops {

// Common to all functions of this file:
//   x             [.., features]; normalized over the last dim
//   weight, bias  [features], of x's type. Either may be undefined: no factor, no addend. A bias
//                 requires a weight
//   unit_offset   the factor is 1 + weight instead of weight (Gemma)
// Results have x's shape and type. They are computed in fp32 or wider (fp64 for fp64) and rounded
// once, at the end. The functions throw InternalError if sizes or types do not match.

// Returns weight * x / sqrt(mean(x^2) + epsilon) (B. Zhang and R. Sennrich, 2019).
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon,
                    bool unit_offset = false);
// Returns weight * (x - mean(x)) / sqrt(variance(x) + epsilon) + bias (J. L. Ba et al., 2016).
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      double epsilon, bool unit_offset = false);

// A residual addition and a norm in one pass over memory. add_rms_norm() and add_layer_norm()
// return {x + branch, norm(x + branch)}, bit-identical to a separate addition and norm. branch: of
// x's sizes and type. The backward pass returns one tensor as the gradient of both x and branch.
using SumAndNorm = std::pair<at::Tensor, at::Tensor>;
SumAndNorm add_rms_norm(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight,
                        double epsilon, bool unit_offset = false);
SumAndNorm add_layer_norm(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight,
                          const at::Tensor& bias, double epsilon, bool unit_offset = false);

}  // namespace colossal::ops
