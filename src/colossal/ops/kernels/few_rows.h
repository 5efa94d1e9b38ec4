// Kernels of ops/product/few_rows.h: products of few rows x [rows, depth] with a weight, as in
// token generation. The weight is [outputs, depth], or [depth, outputs] for kernels whose names end
// in in_out. The kernels are bound by the memory bandwidth of reading the weight. Each result is
// summed over the depth in a fixed order, which depends neither on the number of rows nor on the
// range of outputs that a call computes.
#pragma once

#include <cstdint>

#include "colossal/base/cpu_features.h"

namespace colossal::ops::kernels {

// The operands of y = x weight^T + bias, or of y = x weight + bias for a weight [depth, outputs].
// The rows of x, weight and y are contiguous. Strides are distances between rows, in elements.
struct RowsProduct {
  int64_t rows, depth;
  const void* x;  // [rows, depth]
  int64_t x_stride;
  const void* weight;  // [outputs, depth] or [depth, outputs]
  int64_t weight_stride;
  const void* bias;  // [outputs]; null: no bias
  void* y;           // [rows, outputs]
  int64_t y_stride;
};

// Computes the columns (outputs) [begin, end) of y. Threads may compute different columns.
using MultiplyRows = void (*)(const RowsProduct& product, int64_t begin, int64_t end);

// One kernel for each element type and order of the weight. x, weight, bias and y all have the
// element type of the kernel. bf16 products are accumulated in fp32 and rounded once.
struct RowsKernels {
  MultiplyRows bfloat16, float32, float64;
  MultiplyRows bfloat16_in_out, float32_in_out, float64_in_out;
};

// Returns the kernels for an instruction set; null if the build or this CPU does not support it.
// Rounding of multiply-adds and the order of summation differ between instruction sets.
const RowsKernels* rows_kernels(InstructionSet instruction_set);

// Returns the kernel for bf16 weights [outputs, depth] that uses the CPU's instruction for dot
// products of pairs of bf16 numbers (AVX-512 BF16). The instruction treats subnormal numbers as 0.
// Returns null if the CPU does not have this instruction.
MultiplyRows native_bf16_rows();

// Returns the fastest kernels that this CPU supports. `bfloat16` is native_bf16_rows() if that is
// not null.
const RowsKernels& rows_kernels();

}  // namespace colossal::ops::kernels
