// Linear layers with packed weights (QLoRA). Weights are unpacked a few outputs at a time, in the
// forward pass and again in the backward pass, so that the whole weight never exists unpacked.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "colossal/ops/packed_weight.h"

namespace colossal::ops {

// Packed weights of linear layers that share an input; outputs are concatenated. biases: one for
// each weight, or empty. The layouts must outlive the backward pass.
struct PackedWeights {
  std::vector<at::Tensor> bytes;
  std::vector<std::shared_ptr<const PackedLayout>> layouts;
  std::vector<at::Tensor> biases;

  int64_t out_features() const;
};

// Returns [.., sum of out] in x's type, for x [.., in]: multiplies by the unpacked weights rounded
// to x's type, with the accumulation of LibTorch's linear(). Differentiable in x.
at::Tensor packed_linear(const at::Tensor& x, const PackedWeights& given);

// grouped_product() with stacks [groups, out, in], each packed as one weight [groups * out, in]. Of
// each group a rank holds the same number of outputs. Differentiable in rows.
at::Tensor packed_grouped_product(const at::Tensor& rows, const std::vector<int64_t>& counts,
                                  const PackedWeights& stacks);

}  // namespace colossal::ops
