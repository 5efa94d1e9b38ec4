// Products of groups of rows, each group with weights of its own: what the experts of a layer
// compute. No rows are added to make groups equal.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace colossal::ops {

// rows [rows, in], those of the first group first; counts: how many each group has, which may be
// none. weights: [groups, out, in] each, whose results lie side by side. Returns [rows, sum of
// out], differentiable; a group without rows has a weight gradient of zeros. Any float type, any
// device. With BatchInvariantProducts a row's bits are the same whatever other rows there are.
// InternalError: other shapes, or counts that do not add up to the rows.
at::Tensor grouped_product(const at::Tensor& rows, const std::vector<int64_t>& counts,
                           const std::vector<at::Tensor>& weights);

}  // namespace colossal::ops
