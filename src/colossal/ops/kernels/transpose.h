// The kernels transpose32(), transpose64() and interleave_pairs() of VectorKernels. They copy a
// matrix [rows, columns] transposed, or with pairs of rows of bf16 numbers interleaved. A stride is
// the number of elements from one row to the next.
#pragma once

#include "colossal/ops/kernels/exchange.h"
#include "colossal/ops/kernels/native_vector.h"

namespace colossal::ops::kernels {
namespace {

// Transposes a square of as many rows and columns as a NativeVector has lanes, in registers.
template <typename Element>
[[gnu::always_inline]] inline void transpose_square(const Element* from, int64_t from_stride,
                                                    Element* to, int64_t to_stride) {
  constexpr int kLanes = Native<Element>::kLanes;
  NativeVector<Element> rows[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) rows[i] = load_native(from + i * from_stride);
  exchange_blocks<kLanes, 1>(rows);
  if constexpr (kLanes > 2) exchange_blocks<kLanes, 2>(rows);
  if constexpr (kLanes > 4) exchange_blocks<kLanes, 4>(rows);
  if constexpr (kLanes > 8) exchange_blocks<kLanes, 8>(rows);
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) store_native<Element>(rows[i], to + i * to_stride);
}

// Transposes element by element, for rows and columns that do not fill a square.
template <typename Element>
inline void transpose_elements(const Element* from, int64_t from_stride, int64_t rows,
                               int64_t columns, Element* to, int64_t to_stride) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      to[column * to_stride + row] = from[row * from_stride + column];
    }
  }
}

// transpose32() and transpose64(), for Element uint32_t and uint64_t: to[column][row] =
// from[row][column].
template <typename Element>
inline void transpose(const Element* from, int64_t from_stride, int64_t rows, int64_t columns,
                      Element* to, int64_t to_stride) {
  constexpr int64_t kLanes = Native<Element>::kLanes;
  const int64_t whole_rows = rows - rows % kLanes, whole_columns = columns - columns % kLanes;
  for (int64_t row = 0; row < whole_rows; row += kLanes) {
    for (int64_t column = 0; column < whole_columns; column += kLanes) {
      transpose_square(from + row * from_stride + column, from_stride,
                       to + column * to_stride + row, to_stride);
    }
  }
  transpose_elements(from + whole_columns, from_stride, whole_rows, columns - whole_columns,
                     to + whole_columns * to_stride, to_stride);
  transpose_elements(from + whole_rows * from_stride, from_stride, rows - whole_rows, columns,
                     to + whole_rows, to_stride);
}

// to[p][column] = from[2 p][column] | from[2 p + 1][column] << 16, for p in [0, rows / 2). `rows`
// must be even.
inline void interleave_pairs(const uint16_t* from, int64_t from_stride, int64_t rows,
                             int64_t columns, uint32_t* to, int64_t to_stride) {
  for (int64_t pair = 0; pair < rows / 2; ++pair) {
    const uint16_t* first = from + 2 * pair * from_stride;
    const uint16_t* second = first + from_stride;
    uint32_t* pairs = to + pair * to_stride;
    for (int64_t column = 0; column < columns; ++column) {
      pairs[column] = first[column] | static_cast<uint32_t>(second[column]) << 16;
    }
  }
}

}  // namespace
}  // namespace colossal::ops::kernels
