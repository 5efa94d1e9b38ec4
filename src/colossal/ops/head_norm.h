// Norm of each attention head (QK norm), with gradients, on any device and on meta.
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// Returns x [.., heads, head_size] with each of its first weight.size(0) heads normalized over its
// channels, as layer_norm() (`centered`) or rms_norm() normalizes a row; the other heads are
// copied. weight, bias: [normalized heads, head_size], of x's type; bias may be undefined.
// Statistics are kept in fp32 (fp64 for fp64). Throws InternalError if sizes or types do not match.
at::Tensor norm_heads(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      bool unit_offset, bool centered, double epsilon);

}  // namespace colossal::ops
