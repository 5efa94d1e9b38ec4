// Linear layers with packed weights (QLoRA). In the forward pass and again in the backward pass,
// packed_linear() unpacks some 8 million elements of a weight at a time, packed_grouped_product()
// the matrix of one group; they are freed after their product.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "colossal/ops/packed_weight.h"

namespace colossal::ops {

// Packed weights of linear layers with one common input, whose outputs are concatenated along the
// last dim. bytes: from pack(). layouts: one for each weight; they must outlive the backward pass.
// biases: one for each weight, or empty.
struct PackedWeights {
  std::vector<at::Tensor> bytes;
  std::vector<std::shared_ptr<const PackedLayout>> layouts;
  std::vector<at::Tensor> biases;

  int64_t out_features() const;
};

// Returns the concatenated outputs, [.., sum of out], for x [.., in]. Multiplies x by the unpacked
// weights, rounded to x's type. Differentiable in x. Throws InternalError if the numbers of
// weights, layouts and biases do not match.
at::Tensor packed_linear(const at::Tensor& x, const PackedWeights& given);

// Like grouped_product(), for packed stacks: each stack [groups, out, in] is packed as one weight
// [groups * out, in]. A rank must hold the same number of outputs of every group. stacks.biases is
// ignored. Differentiable in rows.
at::Tensor packed_grouped_product(const at::Tensor& rows, const std::vector<int64_t>& counts,
                                  const PackedWeights& stacks);

}  // namespace colossal::ops
