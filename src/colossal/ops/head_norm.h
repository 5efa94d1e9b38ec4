// Norms of attention's heads, each alone, with gradients, on any device and on meta.
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// x [.., heads, head_size] with each of its first weight.size(0) heads normed over its channels, as
// layer_norm() (centered) or rms_norm() norms a row; the others are copied. weight, bias [normed
// heads, head_size], of x's type; bias may be undefined. Statistics are kept in fp32 (fp64 for
// fp64). InternalError: sizes or types do not fit each other.
at::Tensor norm_heads(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      bool unit_offset, bool centered, double epsilon);

}  // namespace colossal::ops
