// GPTQ (E. Frantar et al. 2022, "GPTQ: Accurate Post-Training Quantization for Generative
// Pre-trained Transformers"): rounds weights input by input. The weights of inputs not yet rounded
// are updated to compensate for the rounding error in the layer's outputs on the calibration data.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "colossal/ops/quantized_matrix.h"

namespace colossal::ops {

struct GptqOptions {
  double damping = 0.01;  // times the mean of the Hessian's diagonal: added to the diagonal
  // Rounds the inputs with the largest Hessian diagonal first, as the authors' act_order. Groups
  // remain runs of consecutive inputs, whose scales are then chosen before any rounding. If false,
  // rounds inputs in their order and chooses a group's scales when its first input is reached.
  bool order_by_activation = true;
  int64_t block = 128;  // inputs whose updates of later inputs are applied at once
};

// Rounds weight [outputs, inputs] to int8 or int4. hessian [inputs, inputs]: X^T X over all
// calibration rows X, times any positive factor. Computes in fp64. Inputs that are 0 in all
// calibration rows are rounded to nearest. Throws Error if the Hessian is not finite, InternalError
// for fp8.
QuantizedMatrix gptq(const at::Tensor& weight, const at::Tensor& hessian, const Quantization& how,
                     const GptqOptions& options = {});

// Returns the squared error of the layer's outputs due to rounding, summed over outputs and
// calibration rows: tr(D H D^T), where D is the difference of the two weights and H the Hessian.
double product_error(const at::Tensor& weight, const at::Tensor& rounded,
                     const at::Tensor& hessian);

}  // namespace colossal::ops
