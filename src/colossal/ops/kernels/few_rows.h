// Products of few rows with a weight [outputs, depth], or [depth, outputs] where a function's name
// ends in in_out, which read the weight once and are bound by that: each row's numbers are sums
// over the depth in one fixed order, which depends neither on how many rows there are nor on which
// outputs a call makes.
#pragma once

#include <cstdint>

#include "colossal/base/cpu_features.h"

namespace colossal::ops::kernels {

// y [rows, outputs] = x w^T + bias. Strides in elements, between dense rows.
struct RowsProduct {
  int64_t rows, depth;
  const void* x;
  int64_t x_stride;
  const void* weight;
  int64_t weight_stride;
  const void* bias;  // null: none
  void* y;
  int64_t y_stride;
};

// Outputs [begin, end) of the product.
using MultiplyRows = void (*)(const RowsProduct& product, int64_t begin, int64_t end);

// One kernel for each type of all numbers. bf16 is summed in fp32 and rounded once.
struct RowsKernels {
  MultiplyRows bfloat16, float32, float64;
  MultiplyRows bfloat16_in_out, float32_in_out, float64_in_out;
};

// Null where the build or this CPU has none such. Where products are rounded, and in which of the
// set's lanes they are summed, differs between instruction sets.
const RowsKernels* rows_kernels(InstructionSet instruction_set);

// bf16 by the CPU's own products of pairs (AVX-512 BF16), which take numbers below the smallest
// normal one for 0; null where there are none.
MultiplyRows native_bf16_rows();

// The fastest that this CPU has.
const RowsKernels& rows_kernels();

}  // namespace colossal::ops::kernels
