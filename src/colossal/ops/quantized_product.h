// Linear layers with quantized weights. The whole weight is never dequantized at once: for few rows
// the kernels dequantize in registers, for many rows a panel of outputs at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "colossal/ops/quantized_matrix.h"

namespace colossal::ops {

// Weights of linear layers that share an input, with equal Quantization. biases: one for each
// weight, or empty.
struct QuantizedWeights {
  std::vector<std::shared_ptr<const QuantizedMatrix>> weights;
  std::vector<at::Tensor> biases;

  int64_t out_features() const;
};

// Returns [.., sum of out] in x's type, for x [.., in]; outputs of the weights are concatenated.
// Differentiable in x, as a product with the dequantized weights; the weights must outlive the
// backward pass. A row's bits are the same in every batch of few rows; with BatchInvariantProducts,
// in every batch. Throws InternalError if the number of biases is neither 0 nor that of the
// weights.
at::Tensor quantized_linear(const at::Tensor& x, const QuantizedWeights& given);

// One matrix [out, in] for each group, with equal Quantization.
using QuantizedStack = std::vector<std::shared_ptr<const QuantizedMatrix>>;

// grouped_product() with quantized weights. rows: [rows, in], ordered by group; counts: rows of
// each group. Returns [rows, sum of out]. Differentiable in rows. Throws InternalError if the
// counts do not add up to the number of rows.
at::Tensor quantized_grouped_product(const at::Tensor& rows, const std::vector<int64_t>& counts,
                                     const std::vector<QuantizedStack>& stacks);

}  // namespace colossal::ops
