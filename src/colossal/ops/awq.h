// AWQ (J. Lin et al. 2023, "AWQ: Activation-aware Weight Quantization for LLM Compression and
// Acceleration"). Input channels with large activations matter most. So the weights of each input
// channel are multiplied by a factor before rounding, and the channel's activations are divided by
// it.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "colossal/ops/quantized_matrix.h"

namespace colossal::ops {

// Statistics of the rows X [rows, inputs] that linear layers receive as input.
struct InputStatistics {
  at::Tensor hessian;     // X^T X, [inputs, inputs] fp64
  at::Tensor magnitudes;  // sum of |X|, [inputs] fp64
  int64_t rows = 0;

  explicit InputStatistics(int64_t inputs);
  void add(const at::Tensor& rows_seen);  // [more rows, inputs]
};

// Returns a factor for each input channel, [inputs] fp64. weights: [outputs, inputs] each, of
// layers with one common input. A candidate has the factors m^a, where m is a channel's mean of |X|
// and a is one of 20 values from 0 to 0.95; the factors are then divided by sqrt(largest factor *
// smallest factor). Returns the candidate with which rounding changes the layers' outputs least
// (equations 4 and 5 of the paper). Returns all ones if `inputs` has seen no rows.
at::Tensor awq_factors(const std::vector<at::Tensor>& weights, const InputStatistics& inputs,
                       const Quantization& how);

}  // namespace colossal::ops
