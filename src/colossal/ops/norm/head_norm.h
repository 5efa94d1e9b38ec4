// Layer norm or RMS norm of each attention head (QK norm).
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// Returns x [.., heads, head_size] with the first weight.size(0) heads normalized, each over its
// head_size channels; the other heads are copied. For fused queries, keys and values, the values
// come last and are not normalized.
//   weight, bias  [normalized heads, head_size], of x's type. bias may be undefined
//   unit_offset   the factor is 1 + weight instead of weight (Gemma)
//   centered      true: layer norm; false: RMS norm
// Differentiable, on any device and on meta. Saves x and statistics for the backward pass; the
// statistics are in fp64 for fp64, otherwise in fp32. Throws InternalError if sizes or types do not
// match.
at::Tensor norm_heads(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      bool unit_offset, bool centered, double epsilon);

}  // namespace colossal::ops
