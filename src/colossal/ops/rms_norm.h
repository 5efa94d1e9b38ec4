// Root mean square norm, with gradients, on any device and on meta.
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// weight * x / sqrt(mean(x^2) + epsilon) over the last dim (B. Zhang and R. Sennrich, 2019). weight
// [features], of x's type. Statistics in fp32 (fp64 for fp64). InternalError: sizes or types
// differ.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon);

}  // namespace colossal::ops
