// Sums rows: the gradient of what was added to every row.
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// rows [count, columns] -> [columns]. bf16 is summed in fp32 and rounded once. InternalError:
// another shape.
at::Tensor sum_rows(const at::Tensor& rows);

}  // namespace colossal::ops
