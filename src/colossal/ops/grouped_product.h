// Grouped GEMM: each group of rows is multiplied by weights of its own, as the experts of a layer
// compute. Groups are not padded to equal sizes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace colossal::ops {

// Returns [rows, sum of out]. rows: [rows, in], ordered by group; counts: rows of each group, may
// be 0; weights: [groups, out, in] each, whose results are concatenated along the last dim.
// Differentiable; a group without rows has a weight gradient of zeros. Any floating type, any
// device. With BatchInvariantProducts a row's bits do not depend on the other rows. Throws
// InternalError if shapes do not match, or if the counts do not add up to the number of rows.
at::Tensor grouped_product(const at::Tensor& rows, const std::vector<int64_t>& counts,
                           const std::vector<at::Tensor>& weights);

}  // namespace colossal::ops
