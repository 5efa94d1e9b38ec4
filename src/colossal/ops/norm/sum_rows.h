// Sum over rows: the gradient of a tensor that was broadcast over rows, such as a bias.
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// Returns the sum over the first dim of rows [count, columns]: [columns], in the type of `rows`. On
// the CPU, bf16 is accumulated in fp32 and rounded once. Throws InternalError if `rows` is not
// two-dimensional.
at::Tensor sum_rows(const at::Tensor& rows);

}  // namespace colossal::ops
