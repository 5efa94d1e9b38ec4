// The kernels transpose_pairs() and round_block() of VectorKernels (vector_kernels.h), for products
// of bf16 matrices. Strides are distances between rows, in elements.
//
// transpose_pairs() packs an operand `from` [rows, columns]: to[column][p] = from[2 p][column] |
// from[2 p + 1][column] << 16. An odd number of rows is padded with a row of zeros.
//
// round_block() rounds fp32 results `from` [rows, columns] to bf16: to[row][column] =
// from[row][column] * factor + bias[column]. bias: [columns] in bf16; null: no bias.
#pragma once

#include "colossal/ops/kernels/block.h"
#include "colossal/ops/kernels/exchange.h"
#include "colossal/ops/kernels/native_vector.h"

namespace colossal::ops::kernels {
namespace {

// Transposes are made in registers, in tiles of kTile pairs of rows by kTile columns.
constexpr int64_t kTile = 16;

typedef uint32_t PairVector __attribute__((vector_size(kVectorBytes)));
typedef uint16_t HalfVector __attribute__((vector_size(kVectorBytes / 2)));

// Returns 16 pairs of bf16 numbers: lane i has first[i] in the low 16 bits and second[i] in the
// high 16 bits.
[[gnu::always_inline]] inline PairVector load_pairs(const uint16_t* first, const uint16_t* second) {
  HalfVector low, high;
  __builtin_memcpy(&low, first, sizeof low);
  __builtin_memcpy(&high, second, sizeof high);
  return __builtin_convertvector(low, PairVector) | __builtin_convertvector(high, PairVector) << 16;
}

// transpose_pairs() for one tile: 2 * kTile rows and kTile columns of `from`.
[[gnu::always_inline]] inline void transpose_tile(const uint16_t* from, int64_t from_stride,
                                                  uint32_t* to, int64_t to_stride) {
  PairVector rows[kTile];
#pragma GCC unroll 16
  for (int64_t pair = 0; pair < kTile; ++pair) {
    rows[pair] = load_pairs(from + 2 * pair * from_stride, from + (2 * pair + 1) * from_stride);
  }
  exchange_blocks<kTile, 1>(rows);
  exchange_blocks<kTile, 2>(rows);
  exchange_blocks<kTile, 4>(rows);
  exchange_blocks<kTile, 8>(rows);
#pragma GCC unroll 16
  for (int64_t column = 0; column < kTile; ++column) {
    __builtin_memcpy(to + column * to_stride, &rows[column], kVectorBytes);
  }
}

// transpose_pairs() element by element, for rows and columns that do not fill a tile.
inline void transpose_edge(const uint16_t* from, int64_t from_stride, int64_t rows, int64_t columns,
                           uint32_t* to, int64_t to_stride) {
  for (int64_t row = 0; row < rows; row += 2) {
    for (int64_t column = 0; column < columns; ++column) {
      const uint32_t first = from[row * from_stride + column];
      const uint32_t second = row + 1 < rows ? from[(row + 1) * from_stride + column] : 0;
      to[column * to_stride + row / 2] = first | second << 16;
    }
  }
}

inline void transpose_pairs(const uint16_t* from, int64_t from_stride, int64_t rows,
                            int64_t columns, uint32_t* to, int64_t to_stride) {
  const int64_t whole_rows = rows - rows % (2 * kTile), whole_columns = columns - columns % kTile;
  for (int64_t row = 0; row < whole_rows; row += 2 * kTile) {
    for (int64_t column = 0; column < whole_columns; column += kTile) {
      transpose_tile(from + row * from_stride + column, from_stride,
                     to + column * to_stride + row / 2, to_stride);
    }
  }
  transpose_edge(from + whole_columns, from_stride, whole_rows, columns - whole_columns,
                 to + whole_columns * to_stride, to_stride);
  transpose_edge(from + whole_rows * from_stride, from_stride, rows - whole_rows, columns,
                 to + whole_rows / 2, to_stride);
}

// round_block() with or without a bias.
template <bool with_bias>
inline void round_rows(const float* from, int64_t from_stride, int64_t rows, int64_t columns,
                       const uint16_t* bias, float factor, uint16_t* to, int64_t to_stride) {
  constexpr int64_t kLanes = Native<float>::kLanes;
  const int64_t whole = columns - columns % kLanes;
  for (int64_t row = 0; row < rows; ++row, from += from_stride, to += to_stride) {
    for (int64_t column = 0; column < whole; column += kLanes) {
      NativeVector<float> value = load_native(from + column) * factor;
      if constexpr (with_bias) value += load_halves(bias + column);
      store_halves(rounded_bits(value), to + column);
    }
    for (int64_t column = whole; column < columns; ++column) {
      float value = from[column] * factor;
      if constexpr (with_bias) value += from_bfloat16(bias[column]);
      to[column] = round_to_bfloat16(value);
    }
  }
}

inline void round_block(const float* from, int64_t from_stride, int64_t rows, int64_t columns,
                        const uint16_t* bias, float factor, uint16_t* to, int64_t to_stride) {
  (bias ? round_rows<true> : round_rows<false>)(from, from_stride, rows, columns, bias, factor, to,
                                                to_stride);
}

}  // namespace
}  // namespace colossal::ops::kernels
