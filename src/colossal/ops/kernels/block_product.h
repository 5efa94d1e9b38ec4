// Products of matrices that fit into a cache, with a left operand of any strides. For kernels that
// compute many such products, where a library would repack its operands at each call.
#pragma once

#include <cstdint>

#include "colossal/base/cpu_features.h"

namespace colossal::ops::kernels {

// Strides are in elements: element (row, column) is data[row * row_stride + column *
// column_stride].
template <typename Element>
struct Matrix {
  const Element* data;
  int64_t row_stride, column_stride;
};

// c [rows, columns] <- (add ? c : 0) + a b. a [rows, depth] may have any strides. The rows of b
// [depth, columns] and of c are contiguous; b_stride and c_stride are from row to row, in elements.
// columns: a multiple of 16 (fp32) or 8 (fp64). Each element of a b is summed over the depth in
// ascending order; whether multiply-adds are fused depends on the CPU.
template <typename Real>
using BlockProduct = void (*)(int64_t rows, int64_t columns, int64_t depth, const Matrix<Real>& a,
                              const Real* b, int64_t b_stride, Real* c, int64_t c_stride, bool add);

struct BlockProductKernels {
  BlockProduct<float> float32;
  BlockProduct<double> float64;
};

// Returns the kernels for an instruction set; null if the build or this CPU does not support it.
const BlockProductKernels* block_product_kernels(InstructionSet instruction_set);

// Returns the kernels for the widest instruction set that this CPU supports.
const BlockProductKernels& block_product_kernels();

}  // namespace colossal::ops::kernels
