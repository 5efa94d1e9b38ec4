// AWQ, activation-aware weight quantization (J. Lin et al. 2023, "AWQ: Activation-aware Weight
// Quantization for LLM Compression and Acceleration"). Errors in the weights of input channels with
// large activations matter most. AWQ therefore multiplies the weights of each input channel by a
// factor before quantization, and divides the channel's activations by the same factor. This file
// finds the factors: collect InputStatistics over calibration texts, then call awq_factors().
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "colossal/ops/product/quantized_matrix.h"

namespace colossal::ops {

// Statistics of the input X [rows, channels] of linear layers, summed over calls of add().
// awq_factors() reads all members; gptq() (gptq.h) takes `hessian` only. The sums over the rows of
// one call are computed in fp32, and the sums over calls in fp64.
struct InputStatistics {
  at::Tensor hessian;     // X^T X, [channels, channels] fp64
  at::Tensor magnitudes;  // sum over the rows of |X|, [channels] fp64
  int64_t rows = 0;       // number of rows of X so far

  // Starts with zero rows. inputs: the number of channels.
  explicit InputStatistics(int64_t inputs);
  // Adds rows of X. rows_seen: [any number of rows, channels], of any floating type.
  void add(const at::Tensor& rows_seen);
};

// Returns the factors by which to multiply the weights of each input channel, [channels] fp64, all
// above 0. weights: of layers that have the same input, [outputs, channels] each. how: the
// quantization that the weights will get.
//
// Tries 20 exponents a: 0, 0.05, .., 0.95. The factor of a channel is max(m^a, 1e-4), where m is
// the mean of the channel's column of |X|. All factors are then divided by sqrt(largest factor *
// smallest factor). Returns the factors of the exponent with which quantization changes the
// layers' outputs least (equations 4 and 5 of the paper). Returns ones if inputs.rows is 0.
at::Tensor awq_factors(const std::vector<at::Tensor>& weights, const InputStatistics& inputs,
                       const Quantization& how);

}  // namespace colossal::ops
