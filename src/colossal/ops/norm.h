// Layer norm and RMS norm, with gradients, on any device and on meta.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

namespace colossal::ops {

// Normalize over the last dim. weight, bias: [features], of x's type; bias may be undefined, or
// both. unit_offset: multiply by 1 + weight instead of weight (Gemma). All intermediate results are
// in fp32 (fp64 for fp64); each result is rounded once, at the end. Throw InternalError if sizes or
// types do not match.
//
// weight * x / sqrt(mean(x^2) + epsilon) (B. Zhang and R. Sennrich, 2019).
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon,
                    bool unit_offset = false);
// weight * (x - mean(x)) / sqrt(variance(x) + epsilon) + bias (J. L. Ba et al., 2016).
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      double epsilon, bool unit_offset = false);

// Fused residual addition and norm: return {x + branch, norm(x + branch)} in one pass over memory,
// bit-identical to a separate addition and norm. The backward pass computes one gradient that
// serves both addends. branch: of x's sizes and type.
using SumAndNorm = std::pair<at::Tensor, at::Tensor>;
SumAndNorm add_rms_norm(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight,
                        double epsilon, bool unit_offset = false);
SumAndNorm add_layer_norm(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight,
                          const at::Tensor& bias, double epsilon, bool unit_offset = false);

}  // namespace colossal::ops
