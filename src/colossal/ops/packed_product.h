// Products with packed weights. Their numbers are made some outputs at a time, forward and again
// backward, so that a whole model of them never is.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "colossal/ops/packed_weight.h"

namespace colossal::ops {

// Weights of one input, side by side; biases: as many, or none. Layouts must outlive the backward
// pass.
struct PackedWeights {
  std::vector<at::Tensor> bytes;
  std::vector<std::shared_ptr<const PackedLayout>> layouts;
  std::vector<at::Tensor> biases;

  int64_t out_features() const;
};

// x [.., in] -> [.., sum of out], in x's type: the products of the numbers that the codes stand
// for, rounded to that type, with sums as linear() has them. Differentiable by x.
at::Tensor packed_linear(const at::Tensor& x, const PackedWeights& given);

// As grouped_product(), of stacks [groups, out, in] each of which is packed as one weight [groups *
// out, in]; as many rows are here of each group. Differentiable by the rows.
at::Tensor packed_grouped_product(const at::Tensor& rows, const std::vector<int64_t>& counts,
                                  const PackedWeights& stacks);

}  // namespace colossal::ops
