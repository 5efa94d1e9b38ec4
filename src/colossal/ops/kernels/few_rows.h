// Products of few rows with a weight [outputs, depth], or [depth, outputs] for kernels whose names
// end in in_out. They are bound by the memory bandwidth of reading the weight. Each result is
// summed over the depth in a fixed order, which depends neither on the number of rows nor on the
// range of outputs that a call computes.
#pragma once

#include <cstdint>

#include "colossal/base/cpu_features.h"

namespace colossal::ops::kernels {

// y [rows, outputs] = x w^T + bias, or x w + bias for a weight [depth, outputs]. The rows of x,
// weight and y are contiguous; strides are from row to row, in elements.
struct RowsProduct {
  int64_t rows, depth;
  const void* x;
  int64_t x_stride;
  const void* weight;
  int64_t weight_stride;
  const void* bias;  // null: no bias
  void* y;
  int64_t y_stride;
};

// Computes the columns [begin, end) of y.
using MultiplyRows = void (*)(const RowsProduct& product, int64_t begin, int64_t end);

// One kernel for each element type and order of the weight. x, weight, bias and y all have this
// type. bf16 products are accumulated in fp32 and rounded once.
struct RowsKernels {
  MultiplyRows bfloat16, float32, float64;
  MultiplyRows bfloat16_in_out, float32_in_out, float64_in_out;
};

// Returns the kernels for an instruction set; null if the build or this CPU does not support it.
// Rounding of multiply-adds and the order of summation differ between instruction sets.
const RowsKernels* rows_kernels(InstructionSet instruction_set);

// Returns the bf16 kernel for weights [outputs, depth] that uses the CPU's instruction for dot
// products of pairs (AVX-512 BF16), which treats subnormal numbers as 0; null if the CPU does not
// have this instruction.
MultiplyRows native_bf16_rows();

// Returns the fastest kernels that this CPU supports.
const RowsKernels& rows_kernels();

}  // namespace colossal::ops::kernels
