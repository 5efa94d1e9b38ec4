// Reads quantized weights with LibTorch's operators, for devices without kernels of Colossal's own.
#pragma once

#include <ATen/core/Tensor.h>

#include "colossal/ops/product/quantized_matrix.h"

namespace colossal::ops::aten_fallback {

// Returns the whole weight, dequantized and rounded to `type`: [outputs, inputs].
at::Tensor dequantized(const QuantizedMatrix& matrix, at::ScalarType type);

}  // namespace colossal::ops::aten_fallback
