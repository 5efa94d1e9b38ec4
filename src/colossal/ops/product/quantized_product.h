// Linear layers and layers of experts with quantized weights (quantized_matrix.h). For few rows, or
// on the CPU if activations are quantized, kernels multiply by the codes directly. Otherwise, and
// in every backward pass, some outputs of a weight are dequantized at a time: 256 on the CPU, 4,096
// on a GPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "colossal/ops/product/quantized_matrix.h"

namespace colossal::ops {

// Weights [out, in] of linear layers with one common input, all with the same Quantization.
struct QuantizedWeights {
  std::vector<std::shared_ptr<const QuantizedMatrix>> weights;
  std::vector<at::Tensor> biases;  // [out] each, one for each weight; or empty: no biases

  int64_t out_features() const;  // sum of `out` over the weights
};

// Returns the outputs of the layers, concatenated along the last dim: [.., sum of out], in x's
// type. x: [.., in]. Differentiable in x: the gradient is that of a product with the dequantized
// weights. The caller must keep the weights alive until the backward pass. A row's bits are the
// same in every batch of at most 32 rows (24 for bf16 on CPUs with AMX), and in batches of any size
// if activations are quantized or while a BatchInvariantProducts exists (few_rows.h). Throws
// InternalError if there are no weights, or if there are biases, but not one for each weight.
at::Tensor quantized_linear(const at::Tensor& x, const QuantizedWeights& given);

// One matrix [out, in] for each group (expert), all with the same Quantization.
using QuantizedStack = std::vector<std::shared_ptr<const QuantizedMatrix>>;

// grouped_product() (grouped_product.h) for quantized weights: multiplies each row by the matrices
// of its group, one of each stack. Returns [rows, sum of out over the stacks].
//   rows    [rows, in], ordered by group
//   counts  number of rows of each group
// Differentiable in rows. The caller must keep the matrices alive until the backward pass. Throws
// InternalError if there are no groups, or if the counts do not add up to the number of rows.
at::Tensor quantized_grouped_product(const at::Tensor& rows, const std::vector<int64_t>& counts,
                                     const std::vector<QuantizedStack>& stacks);

}  // namespace colossal::ops
