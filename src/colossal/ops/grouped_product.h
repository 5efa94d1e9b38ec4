// Grouped GEMM: each group of rows is multiplied by its own weights, as in a layer of experts.
// Groups are not padded to equal sizes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace colossal::ops {

// Returns [rows, sum of out]: each row times the weights of its group; the results of several
// weights are concatenated along the last dim. rows: [rows, in], ordered by group. counts: number
// of rows of each group, may be 0. weights: [groups, out, in] each. Differentiable; a group without
// rows has a weight gradient of zeros. For any floating type on any device. With
// BatchInvariantProducts, on the CPU, a row's bits do not depend on the other rows. Throws
// InternalError if shapes do not match, or if the counts do not add up to the number of rows.
at::Tensor grouped_product(const at::Tensor& rows, const std::vector<int64_t>& counts,
                           const std::vector<at::Tensor>& weights);

}  // namespace colossal::ops
