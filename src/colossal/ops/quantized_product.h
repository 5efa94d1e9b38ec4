// Products with quantized weights, which are never dequantized as a whole: for few rows numbers are
// made in registers, for many rows a panel of outputs at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "colossal/ops/quantized_matrix.h"

namespace colossal::ops {

// Weights of one input, quantized alike; biases: as many, or none.
struct QuantizedWeights {
  std::vector<std::shared_ptr<const QuantizedMatrix>> weights;
  std::vector<at::Tensor> biases;

  int64_t out_features() const;
};

// x [.., in] -> [.., sum of out], results of the weights side by side, in x's type. Differentiable
// by x, as the product of the numbers that the codes stand for; the weights must live until the
// backward pass is done. With BatchInvariantProducts a row's bits are the same in every batch;
// without it in every one of few rows.
at::Tensor quantized_linear(const at::Tensor& x, const QuantizedWeights& given);

// A matrix [out, in] of each group, quantized alike.
using QuantizedStack = std::vector<std::shared_ptr<const QuantizedMatrix>>;

// grouped_product() of such weights: rows [rows, in], those of the first group first; counts: how
// many each group has. Returns [rows, sum of out], differentiable by the rows.
at::Tensor quantized_grouped_product(const at::Tensor& rows, const std::vector<int64_t>& counts,
                                     const std::vector<QuantizedStack>& stacks);

}  // namespace colossal::ops
