// Products of matrices that fit a cache, from operands that lie as they come: for kernels that make
// many of them, where a library's call would repack its operands each time.
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
// c with contiguous rows. columns: a multiple of 16 (fp32) or 8 (fp64). Each number is summed over
// the depth in order; whether products are rounded before they are added depends on the CPU.
template <typename Real>
using BlockProduct = void (*)(int64_t rows, int64_t columns, int64_t depth, const Matrix<Real>& a,
                              const Real* b, int64_t b_stride, Real* c, int64_t c_stride, bool add);

struct BlockProductKernels {
  BlockProduct<float> float32;
  BlockProduct<double> float64;
};

// One for each instruction set; null where the build or this CPU has none such.
const BlockProductKernels* block_product_kernels(InstructionSet instruction_set);

// The widest that this CPU runs.
const BlockProductKernels& block_product_kernels();

}  // namespace colossal::ops::kernels
