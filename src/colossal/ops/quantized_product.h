// Products with quantized weights, which are never dequantized as a whole: for few rows numbers are
// made in registers, for many rows a panel of outputs at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "colossal/ops/quantized_matrix.h"

namespace colossal::ops {

// Weights of one input, quantised alike; biases: as many, or none.
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

}  // namespace colossal::ops
