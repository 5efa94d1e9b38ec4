// Layer norm and RMS norm. Differentiable, on any device and on meta.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

namespace colossal::ops {

// These functions normalize over the last dim. weight, bias: [features], of x's type. bias may be
// undefined; if it is, weight may be undefined, too. unit_offset: the factor is 1 + weight instead
// of weight (Gemma). They compute in at least fp32 (fp64 for fp64), and round each result once, at
// the end. They throw InternalError if sizes or types do not match.
//
// Returns weight * x / sqrt(mean(x^2) + epsilon) (B. Zhang and R. Sennrich, 2019).
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon,
                    bool unit_offset = false);
// Returns weight * (x - mean(x)) / sqrt(variance(x) + epsilon) + bias (J. L. Ba et al., 2016).
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      double epsilon, bool unit_offset = false);

// A residual addition and a norm in one pass over memory. Return {x + branch, norm(x + branch)},
// bit-identical to a separate addition and norm. branch: of x's sizes and type. In backward, x and
// branch get the same gradient tensor.
using SumAndNorm = std::pair<at::Tensor, at::Tensor>;
SumAndNorm add_rms_norm(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight,
                        double epsilon, bool unit_offset = false);
SumAndNorm add_layer_norm(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight,
                          const at::Tensor& bias, double epsilon, bool unit_offset = false);

}  // namespace colossal::ops
