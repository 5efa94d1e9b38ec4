// Products of matrices that fit into a cache, with operands in any layout: for kernels that compute
// many such products, where a library would repack its operands at each call.
#pragma once

#include <cstdint>

#include "colossal/base/cpu_features.h"

namespace colossal::ops::kernels {

// Element (row, column) is data[row * row_stride + column * column_stride].
template <typename Element>
struct Matrix {
  const Element* data;
  int64_t row_stride, column_stride;
};

// c [rows, columns] <- (add ? c : 0) + a b. a [rows, depth] of any strides; b [depth, columns] and
// c with contiguous rows. columns: a multiple of 16 (fp32) or 8 (fp64). Each result is summed over
// the depth in order; whether multiply-adds are fused depends on the CPU.
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
