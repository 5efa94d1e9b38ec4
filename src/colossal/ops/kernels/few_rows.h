// Products of few rows with a weight [outputs, depth], or [depth, outputs] for functions whose
// names end in in_out. They read the weight once and are bound by memory bandwidth. Each result is
// summed over the depth in a fixed order, which depends neither on the number of rows nor on the
// range of outputs that a call computes.
#pragma once

#include <cstdint>

#include "colossal/base/cpu_features.h"

namespace colossal::ops::kernels {

// y [rows, outputs] = x w^T + bias. Rows are dense; strides are between rows, in elements.
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

// Computes outputs [begin, end) of the product.
using MultiplyRows = void (*)(const RowsProduct& product, int64_t begin, int64_t end);

// One kernel for each type, which x, weight, bias and y share. bf16 is accumulated in fp32 and
// rounded once.
struct RowsKernels {
  MultiplyRows bfloat16, float32, float64;
  MultiplyRows bfloat16_in_out, float32_in_out, float64_in_out;
};

// Returns the kernels for an instruction set; null if the build or this CPU does not support it.
// Rounding of multiply-adds and the order of summation differ between instruction sets.
const RowsKernels* rows_kernels(InstructionSet instruction_set);

// Returns the bf16 kernel that uses the CPU's dot products of pairs (AVX-512 BF16), which flush
// subnormal numbers to 0; null if the CPU has none.
MultiplyRows native_bf16_rows();

// Returns the fastest kernels that this CPU supports.
const RowsKernels& rows_kernels();

}  // namespace colossal::ops::kernels
