// GPTQ (E. Frantar et al. 2022, "GPTQ: Accurate Post-Training Quantization for Generative
// Pre-trained Transformers"): rounds a weight matrix input by input. After each input, changes the
// weights of the inputs that are not yet rounded, to make up for the error that rounding causes in
// the layer's outputs on the calibration data.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "colossal/ops/quantized_matrix.h"

namespace colossal::ops {

struct GptqOptions {
  double damping = 0.01;  // added to the Hessian's diagonal, as a fraction of the diagonal's mean
  // If true, rounds inputs in descending order of their element of the Hessian's diagonal
  // ("act_order" in the authors' code). A group still consists of consecutive inputs; all scales
  // are chosen before any rounding. If false, rounds inputs in their own order, and chooses a
  // group's scales just before it rounds the group's first input.
  bool order_by_activation = true;
  int64_t block = 128;  // inputs to round before the inputs after them are changed, all at once
};

// Rounds weight [outputs, inputs] to int8 or int4. hessian: [inputs, inputs], X^T X times any
// positive factor, where X has all calibration rows. Computes in fp64. The weights of an input that
// is 0 in all calibration rows are rounded to nearest. Throws Error if the Hessian is not finite,
// and InternalError for fp8 or if sizes do not match.
QuantizedMatrix gptq(const at::Tensor& weight, const at::Tensor& hessian, const Quantization& how,
                     const GptqOptions& options = {});

// Returns the squared error that rounding causes in the layer's outputs, summed over outputs and
// calibration rows: tr(D H D^T), where D = rounded - weight and H is the Hessian.
double product_error(const at::Tensor& weight, const at::Tensor& rounded,
                     const at::Tensor& hessian);

}  // namespace colossal::ops
