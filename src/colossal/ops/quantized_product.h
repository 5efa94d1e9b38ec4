// Linear layers with quantized weights. For few rows, or if activations are quantized, the kernels
// read the codes. For many rows, and in backward, 256 outputs of a weight are dequantized at a
// time.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "colossal/ops/quantized_matrix.h"

namespace colossal::ops {

// Weights of linear layers with one common input. All have the same Quantization. biases: one for
// each weight, or empty.
struct QuantizedWeights {
  std::vector<std::shared_ptr<const QuantizedMatrix>> weights;
  std::vector<at::Tensor> biases;

  int64_t out_features() const;
};

// Returns [.., sum of out] in x's type, for x [.., in]; the outputs of the weights are
// concatenated. Differentiable in x: the gradient is that of a product with the dequantized
// weights, which must outlive the backward pass. A row's bits are the same in every batch of few
// rows (few_rows.h); with BatchInvariantProducts, in every batch. Throws InternalError if there are
// no weights, or if the number of biases is neither 0 nor that of the weights.
at::Tensor quantized_linear(const at::Tensor& x, const QuantizedWeights& given);

// One matrix [out, in] for each group. All have the same Quantization.
using QuantizedStack = std::vector<std::shared_ptr<const QuantizedMatrix>>;

// Like grouped_product(), with quantized weights. rows: [rows, in], ordered by group; counts:
// number of rows of each group. Returns [rows, sum of out]. Differentiable in rows; the stacks must
// outlive the backward pass. Throws InternalError if there are no groups, or if the counts do not
// add up to the number of rows.
at::Tensor quantized_grouped_product(const at::Tensor& rows, const std::vector<int64_t>& counts,
                                     const std::vector<QuantizedStack>& stacks);

}  // namespace colossal::ops
