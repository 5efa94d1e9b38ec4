// Grouped GEMM for layers of experts: each group of rows (the tokens of one expert) is multiplied
// by the weights of its group. Groups are not padded to equal sizes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace colossal::ops {

// Computes row * weight[g]^T for each row of group g and each weight, and concatenates the results
// of several weights along the last dim: [rows, sum of out].
//   rows     [rows, in]: the rows of group 0, then those of group 1, and so on
//   counts   number of rows of each group; may be 0
//   weights  [groups, out, in] each; `out` may differ
// Differentiable in rows and weights; the weight gradient of a group without rows is zeros. Works
// with any floating type on any device. While a BatchInvariantProducts exists (few_rows.h), a row's
// bits on the CPU do not depend on the other rows. Throws InternalError if shapes do not match, or
// if the counts do not add up to the number of rows.
at::Tensor grouped_product(const at::Tensor& rows, const std::vector<int64_t>& counts,
                           const std::vector<at::Tensor>& weights);

}  // namespace colossal::ops
