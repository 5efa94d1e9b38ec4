#include "colossal/ops/fallback/aten_fallback_quantized.h"

namespace colossal::ops::aten_fallback {

at::Tensor dequantized(const QuantizedMatrix& matrix, at::ScalarType type) {
  at::Tensor numbers = unpacked_codes(matrix);
  if (matrix.how.type == Quantization::Type::int8) numbers = numbers.view(at::kChar);
  if (matrix.how.type == Quantization::Type::fp8) numbers = numbers.view(at::kFloat8_e4m3fn);
  numbers = numbers.to(at::kFloat);
  const int64_t size = inputs_of_group(matrix.inputs, matrix.how);
  const auto of_inputs = [&](const at::Tensor& of_groups) {
    return of_groups.to(at::kFloat).repeat_interleave(size, 1).narrow(1, 0, matrix.inputs);
  };
  constexpr int kMiddle = 8;  // the zero point of int4 without zero points
  if (matrix.how.type == Quantization::Type::int4) {
    matrix.zeros.defined() ? numbers.sub_(of_inputs(matrix.zeros)) : numbers.sub_(kMiddle);
  }
  return numbers.mul_(of_inputs(matrix.scales)).to(type);
}

}  // namespace colossal::ops::aten_fallback
