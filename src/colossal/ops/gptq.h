// GPTQ (E. Frantar et al. 2022, "GPTQ: Accurate Post-Training Quantization for Generative
// Pre-trained Transformers"): weights are rounded input by input, and those that are still to come
// make up for the error that each makes in the product with the inputs that were seen.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "colossal/ops/quantized_matrix.h"

namespace colossal::ops {

struct GptqOptions {
  double damping = 0.01;  // of the mean of the Hessian's diagonal, added to it
  // Inputs of large numbers first, as the authors' act_order, while groups stay runs of inputs,
  // whose scales are then chosen beforehand. Else inputs in their order, and a group's scales are
  // chosen when its turn comes.
  bool order_by_activation = true;
  int64_t block = 128;  // inputs whose corrections of later ones are made together
};

// Rounds weight [outputs, inputs], int8 or int4. hessian [inputs, inputs]: X^T X of all rows X of
// inputs that were seen, in any positive scale. Computed in fp64. Inputs that were never seen are
// rounded to the nearest. Throws Error where the Hessian has numbers that are not finite.
QuantizedMatrix gptq(const at::Tensor& weight, const at::Tensor& hessian, const Quantization& how,
                     const GptqOptions& options = {});

// What the rounding of a weight changes in its products, summed over outputs and rows seen:
// tr(D H D^T) of the difference D of the two.
double product_error(const at::Tensor& weight, const at::Tensor& rounded,
                     const at::Tensor& hessian);

}  // namespace colossal::ops
