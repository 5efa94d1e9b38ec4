// Products of small fp32 and fp64 matrices that fit into a cache. Flash attention computes many of
// them; a BLAS library would repack the operands at each call. The left operand may have any
// strides.
#pragma once

#include <cstdint>

#include "colossal/base/cpu_features.h"

namespace colossal::ops::kernels {

// A matrix in memory: element (row, column) is data[row * row_stride + column * column_stride].
template <typename Element>
struct Matrix {
  const Element* data;
  int64_t row_stride, column_stride;
};

// Computes c <- a b, or c <- c + a b if `add`.
//   a  [rows, depth], any strides
//   b  [depth, columns], with contiguous rows; b_stride is the distance of rows, in elements
//   c  [rows, columns], with contiguous rows; c_stride is the distance of rows, in elements
// columns must be a multiple of 16 for fp32, or of 8 for fp64. Each element of a b is summed over
// the depth in ascending order. Whether multiply-adds are fused depends on the CPU.
template <typename Real>
using BlockProduct = void (*)(int64_t rows, int64_t columns, int64_t depth, const Matrix<Real>& a,
                              const Real* b, int64_t b_stride, Real* c, int64_t c_stride, bool add);

// The kernels of one instruction set.
struct BlockProductKernels {
  BlockProduct<float> float32;
  BlockProduct<double> float64;
};

// Returns the kernels for an instruction set; null if the build or this CPU does not support it.
const BlockProductKernels* block_product_kernels(InstructionSet instruction_set);

// Returns the kernels for the widest instruction set that this CPU supports.
const BlockProductKernels& block_product_kernels();

}  // namespace colossal::ops::kernels
