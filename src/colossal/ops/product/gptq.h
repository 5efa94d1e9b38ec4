// GPTQ quantization of linear layers (E. Frantar et al. 2022, "GPTQ: Accurate Post-Training
// Quantization for Generative Pre-trained Transformers"). GPTQ rounds the columns (inputs) of a
// weight matrix one after the other. After each column, it changes the columns that are not yet
// rounded, so that they make up for the error of the layer's outputs on calibration data.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "colossal/ops/product/quantized_matrix.h"

namespace colossal::ops {

// Options of gptq().
struct GptqOptions {
  double damping = 0.01;  // added to the Hessian's diagonal, as a fraction of the diagonal's mean
  // The order in which columns are rounded. True: in descending order of the Hessian's diagonal
  // elements ("act_order" in the authors' code); the scales of all groups are chosen before any
  // rounding. False: from column 0 to the last; a group's scales are chosen just before the group's
  // first column is rounded. In both cases a group has consecutive columns of the weight matrix.
  bool order_by_activation = true;
  // Number of columns per block, in the order in which they are rounded. After each column, the
  // later columns of its block are changed immediately. The columns after the block are changed by
  // one product, when all columns of the block are rounded.
  int64_t block = 128;
};

// Quantizes weight [outputs, inputs] to int8 or int4. hessian: [inputs, inputs], X^T X times any
// positive factor, where X [rows, inputs] is the layer's input on all calibration data
// (InputStatistics::hessian of awq.h). how: type and groups of the result. Computes in fp64. If an
// input is 0 in all calibration rows, its column is rounded to nearest. Throws Error if the Hessian
// is not finite, and InternalError for fp8 or if sizes do not match.
QuantizedMatrix gptq(const at::Tensor& weight, const at::Tensor& hessian, const Quantization& how,
                     const GptqOptions& options = {});

// Returns the squared error of the layer's outputs if `rounded` [outputs, inputs] replaces
// `weight`, summed over outputs and calibration rows: tr(D H D^T), where D = rounded - weight and H
// is `hessian`. hessian: as for gptq(), but X^T X without a factor, which would multiply the
// result.
double product_error(const at::Tensor& weight, const at::Tensor& rounded,
                     const at::Tensor& hessian);

}  // namespace colossal::ops
