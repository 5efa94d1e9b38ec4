// Linear layers and layers of experts with packed, frozen weights (QLoRA; see packed_weight.h).
// Both functions unpack a part of a weight, multiply, and free the part. They do so in the forward
// pass and again in the backward pass. packed_linear() unpacks about 8 million elements at a time,
// packed_grouped_product() the matrix of one expert.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "colossal/ops/product/packed_weight.h"

namespace colossal::ops {

// Packed weights [out, in] of linear layers with one common input. If ranks divide a weight, `out`
// and `in` are the numbers of outputs and inputs on this rank, here and below.
struct PackedWeights {
  std::vector<at::Tensor> bytes;  // one for each weight, from pack()
  // One for each weight. The caller must keep the layouts alive until the backward pass has ended:
  // the autograd node saves only their addresses.
  std::vector<std::shared_ptr<const PackedLayout>> layouts;
  std::vector<at::Tensor> biases;  // [out] each, one for each weight; or empty: no biases

  int64_t out_features() const;  // sum of `out` over the weights
};

// Returns the outputs of the layers, concatenated along the last dim: [.., sum of out]. x: [..,
// in]. The weights are unpacked to x's type. Differentiable in x. Throws InternalError if there are
// no weights or if the numbers of weights, layouts and biases do not match.
at::Tensor packed_linear(const at::Tensor& x, const PackedWeights& given);

// grouped_product() (grouped_product.h) for packed weights: multiplies each row by the weights of
// its group. Returns [rows, sum of out].
//   rows    [rows, in], ordered by group
//   counts  number of rows of each group
//   stacks  weights [groups, out, in], each packed as one weight [groups * out, in]. This rank must
//           hold the same number of outputs, `out`, of every group. stacks.biases is ignored
// Differentiable in rows. Throws InternalError if there are no stacks, or not one layout for each.
at::Tensor packed_grouped_product(const at::Tensor& rows, const std::vector<int64_t>& counts,
                                  const PackedWeights& stacks);

}  // namespace colossal::ops
