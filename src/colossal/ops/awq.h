// AWQ (J. Lin et al. 2023, "AWQ: Activation-aware Weight Quantization for LLM Compression and
// Acceleration"). Input channels with large activations matter most; so their weights are
// multiplied by a factor before rounding, and the activations are divided by the same factor.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "colossal/ops/quantized_matrix.h"

namespace colossal::ops {

// Statistics of the input rows X [rows, inputs] of linear layers.
struct InputStatistics {
  at::Tensor hessian;     // X^T X, [inputs, inputs] fp64
  at::Tensor magnitudes;  // sum of |X|, [inputs] fp64
  int64_t rows = 0;

  explicit InputStatistics(int64_t inputs);
  void add(const at::Tensor& rows_seen);
};

// Returns a factor for each input channel, [inputs] fp64, for weights [outputs, inputs] that share
// their inputs. The candidates are magnitude^a for 20 values of a from 0 to 0.95, where magnitude
// is the mean of |X|; each is normalized by the root of its largest times its smallest factor.
// Returns the candidate with the smallest error of the layers' outputs after rounding (equations 4
// and 5). Returns all ones if `inputs` has seen no rows.
at::Tensor awq_factors(const std::vector<at::Tensor>& weights, const InputStatistics& inputs,
                       const Quantization& how);

}  // namespace colossal::ops
