// Norm of each attention head (QK norm). Differentiable, on any device and on meta.
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// Normalizes each of the first weight.size(0) heads of x [.., heads, head_size] over its channels,
// as layer_norm() (if `centered`) or rms_norm() normalizes a row; copies the other heads. weight,
// bias: [normalized heads, head_size], of x's type; bias may be undefined. unit_offset: as in
// norm.h. Saves statistics for backward in fp32 (fp64 for fp64). Throws InternalError if sizes or
// types do not match.
at::Tensor norm_heads(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      bool unit_offset, bool centered, double epsilon);

}  // namespace colossal::ops
