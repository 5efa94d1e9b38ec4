// Layer norm and root mean square norm, with gradients, on any device and on meta.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

namespace colossal::ops {

// Over the last dim. weight, bias [features], of x's type, may be undefined: no weight (then no
// bias either), no bias. unit_offset: 1 + weight takes the weight's place (Gemma). Statistics in
// fp32 (fp64 for fp64), and all the rest too: a result is rounded once, at its end. InternalError:
// sizes or types differ.
//
// weight * x / sqrt(mean(x^2) + epsilon) (B. Zhang and R. Sennrich, 2019).
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon,
                    bool unit_offset = false);
// weight * (x - mean(x)) / sqrt(variance(x) + epsilon) + bias (J. L. Ba et al., 2016).
at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      double epsilon, bool unit_offset = false);

// Where a branch joins the residual stream and a norm follows: returns {x + branch, its norm}, in
// one pass over memory, with the bits of an addition and a norm. The backward pass makes one
// gradient for both addends. branch: of x's sizes and type.
using SumAndNorm = std::pair<at::Tensor, at::Tensor>;
SumAndNorm add_rms_norm(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight,
                        double epsilon, bool unit_offset = false);
SumAndNorm add_layer_norm(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight,
                          const at::Tensor& bias, double epsilon, bool unit_offset = false);

}  // namespace colossal::ops
