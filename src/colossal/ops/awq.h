// AWQ (J. Lin et al. 2023, "AWQ: Activation-aware Weight Quantization for LLM Compression and
// Acceleration"): inputs with large numbers matter most, so that their weights are multiplied by a
// factor before they are rounded, and the inputs divided by it.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "colossal/ops/quantized_matrix.h"

namespace colossal::ops {

// Of the rows X [rows, inputs] that products multiplied.
struct InputStatistics {
  at::Tensor hessian;     // X^T X, [inputs, inputs] fp64
  at::Tensor magnitudes;  // sum of |X|, [inputs] fp64
  int64_t rows = 0;

  explicit InputStatistics(int64_t inputs);
  void add(const at::Tensor& rows_seen);
};

// Chooses a factor of each input, [inputs] fp64, for weights [outputs, inputs] that share their
// inputs: magnitude^a, over the root of the largest times the least of them, of 20 steps a from 0
// on the one with which the rounded weights, divided by the factors again, change their products
// least (equations 4 and 5). All ones where nothing was seen.
at::Tensor awq_factors(const std::vector<at::Tensor>& weights, const InputStatistics& inputs,
                       const Quantization& how);

}  // namespace colossal::ops
