// The loops of the kernels of few_rows.h, as templates over the format of the numbers.
// multiply_rows() computes y = x weight^T + bias for weights [outputs, depth], and
// multiply_rows_in_out() computes y = x weight + bias for weights [depth, outputs]; x is [rows,
// depth] and y is [rows, outputs] (RowsProduct). Both compute y in tiles of a few rows and outputs,
// whose sums stay in registers.
#pragma once

#include "colossal/ops/kernels/block.h"
#include "colossal/ops/kernels/few_rows.h"
#include "colossal/ops/kernels/folded_sum.h"
#include "colossal/ops/kernels/prefetch.h"

namespace colossal::ops::kernels {
namespace {

// For weights [outputs, depth]: outputs per tile, that is, rows of the weight that are read side by
// side.
constexpr int kTileOutputs = 4;
// For weights [outputs, depth]: rows of x per tile, as many as fit into registers beside the
// weights.
#if defined(__AVX512F__)
constexpr int kTileRows = 6;
#else
constexpr int kTileRows = 2;
#endif
// For weights [depth, outputs]: vectors of outputs per tile.
#if defined(__AVX512F__)
constexpr int kTileVectors = 8;
#else
constexpr int kTileVectors = 4;
#endif
// For weights [depth, outputs]: while row k of the weight is multiplied, row k + kRowsAhead is
// prefetched.
constexpr int64_t kRowsAhead = 16;
// For weights [outputs, depth]: maximum number of rows of x that one pass over the weight
// multiplies; these rows stay in the second-level cache.
constexpr int64_t kMaxRowsPerPass = 48;

// A format is a class that defines how numbers are read and multiplied:
//   Element          type of a number in memory
//   Sum              type of a sum of products
//   kStep            numbers per vector
//   Loaded, load()   a vector of kStep numbers; reads it from memory
//   Sums             a vector of partial sums
//   multiply_add()   returns sums plus the products of two Loaded, lane by lane or in pairs
//   sum()            returns the sum of all lanes of a Sums
//   widen()          converts an Element to a Sum
//   narrow()         rounds a Sum to an Element
// multiply_rows_in_out() requires a format whose Loaded and Sums are NativeVector<Sum>, and whose
// multiply_add() multiplies lane by lane.

// Loads from[0, count), where count < Format::kStep, and pads the vector with zeros.
template <typename Format>
[[gnu::always_inline]] inline typename Format::Loaded load_rest(
    const typename Format::Element* from, int64_t count) {
  typename Format::Element rest[Format::kStep] = {};
  for (int64_t i = 0; i < count; ++i) rest[i] = from[i];
  return Format::load(rest);
}

// Computes one tile for a weight [outputs, depth]: rows [row, row + kRows) and outputs [output,
// output + kOutputs) of y. The tile uses kOutputs rows of the weight, together N bytes. ahead: if
// true, prefetches the N bytes that begin kBytesAhead (prefetch.h) bytes after the first byte of
// these rows; requires weight_stride == depth, that is, no gaps between the rows of the weight. If
// false, prefetches nothing beyond the kOutputs rows.
template <typename Format, int kRows, int kOutputs>
[[gnu::always_inline]] inline void multiply_tile(const RowsProduct& product, int64_t row,
                                                 int64_t output, bool ahead) {
  typedef typename Format::Element Element;
  const Element* x = static_cast<const Element*>(product.x) + row * product.x_stride;
  const Element* weight =
      static_cast<const Element*>(product.weight) + output * product.weight_stride;
  typename Format::Sums sums[kRows][kOutputs] = {};
  const auto* const later = reinterpret_cast<const char*>(weight) + (ahead ? kBytesAhead : 0);
  int64_t k = 0;
  for (; k + Format::kStep <= product.depth; k += Format::kStep) {
    typename Format::Loaded weights[kOutputs];
    for (int o = 0; o < kOutputs; ++o) {
      prefetch(later + (k * kOutputs + o * Format::kStep) * int64_t{sizeof(Element)});
      weights[o] = Format::load(weight + o * product.weight_stride + k);
    }
    for (int r = 0; r < kRows; ++r) {
      const typename Format::Loaded of_row = Format::load(x + r * product.x_stride + k);
      for (int o = 0; o < kOutputs; ++o) {
        sums[r][o] = Format::multiply_add(sums[r][o], of_row, weights[o]);
      }
    }
  }
  if (const int64_t rest = product.depth - k; rest > 0) {
    for (int o = 0; o < kOutputs; ++o) {
      const auto weights = load_rest<Format>(weight + o * product.weight_stride + k, rest);
      for (int r = 0; r < kRows; ++r) {
        const auto of_row = load_rest<Format>(x + r * product.x_stride + k, rest);
        sums[r][o] = Format::multiply_add(sums[r][o], of_row, weights);
      }
    }
  }
  const auto* bias = static_cast<const Element*>(product.bias);
  for (int r = 0; r < kRows; ++r) {
    Element* y = static_cast<Element*>(product.y) + (row + r) * product.y_stride + output;
    for (int o = 0; o < kOutputs; ++o) {
      typename Format::Sum sum = Format::sum(sums[r][o]);
      if (bias) sum += Format::widen(bias[output + o]);
      y[o] = Format::narrow(sum);
    }
  }
}

// Computes rows [row, end) and outputs [output, output + kOutputs) of y, in tiles of kRows rows.
// The last rows, if fewer than kRows, are computed in smaller tiles. ahead: as for multiply_tile(),
// for the first tile; all other tiles of these outputs read the same weights and get `false`.
template <typename Format, int kRows, int kOutputs>
inline void multiply_outputs(const RowsProduct& product, int64_t row, int64_t end, int64_t output,
                             bool ahead) {
  for (; row + kRows <= end; row += kRows) {
    multiply_tile<Format, kRows, kOutputs>(product, row, output, ahead);
    ahead = false;
  }
  if constexpr (kRows > 1) {
    multiply_outputs<Format, kRows - 1, kOutputs>(product, row, end, output, ahead);
  }
}

// A MultiplyRows for weights [outputs, depth]: computes all rows, and outputs [begin, end), of y.
template <typename Format>
inline void multiply_rows(const RowsProduct& product, int64_t begin, int64_t end) {
  for (int64_t row = 0; row < product.rows; row += kMaxRowsPerPass) {
    const int64_t last = smaller(product.rows, row + kMaxRowsPerPass);
    int64_t output = begin;
    for (; output + kTileOutputs <= end; output += kTileOutputs) {
      const bool ahead = product.weight_stride == product.depth && output + kTileOutputs < end;
      multiply_outputs<Format, kTileRows, kTileOutputs>(product, row, last, output, ahead);
    }
    for (; output < end; ++output) {
      multiply_outputs<Format, kTileRows, 1>(product, row, last, output, false);
    }
  }
}

// Computes one tile for a weight [depth, outputs]: rows [row, row + kRows) and outputs [output,
// output + count) of y. count: kVectors * Format::kStep, or less if kVectors is 1.
template <typename Format, int kRows, int kVectors>
[[gnu::always_inline]] inline void multiply_columns(const RowsProduct& product, int64_t row,
                                                    int64_t output, int64_t count) {
  typedef typename Format::Element Element;
  constexpr int64_t kStep = Format::kStep;
  const Element* x = static_cast<const Element*>(product.x) + row * product.x_stride;
  const Element* weight = static_cast<const Element*>(product.weight) + output;
  const bool whole = count == kVectors * kStep;
  typename Format::Sums sums[kRows][kVectors] = {};
  for (int64_t k = 0; k < product.depth; ++k) {
    const Element* from = weight + k * product.weight_stride;
    for (int v = 0; v < kVectors; ++v) {
      // Rows of the weight are too far apart for the CPU's hardware prefetcher.
      __builtin_prefetch(from + kRowsAhead * product.weight_stride + v * kStep, 0, 2);
      const typename Format::Loaded weights =
          whole ? Format::load(from + v * kStep) : load_rest<Format>(from, count);
      for (int r = 0; r < kRows; ++r) {
        const auto factor = broadcast(Format::widen(x[r * product.x_stride + k]));
        sums[r][v] = Format::multiply_add(sums[r][v], factor, weights);
      }
    }
  }
  const auto* bias = static_cast<const Element*>(product.bias);
  for (int r = 0; r < kRows; ++r) {
    Element* y = static_cast<Element*>(product.y) + (row + r) * product.y_stride + output;
    // A copy in memory, because the loop over `count` has a variable index. The compiler keeps
    // `sums` in registers only if all their indices are constants.
    typename Format::Sum of_outputs[kVectors * kStep];
    for (int v = 0; v < kVectors; ++v) store_native(sums[r][v], of_outputs + v * kStep);
    for (int64_t o = 0; o < count; ++o) {
      if (bias) of_outputs[o] += Format::widen(bias[output + o]);
      y[o] = Format::narrow(of_outputs[o]);
    }
  }
}

// Computes all rows, and outputs [output, output + count), for a weight [depth, outputs]. count: as
// for multiply_columns().
template <typename Format, int kVectors>
inline void multiply_rows_of_columns(const RowsProduct& product, int64_t output, int64_t count) {
  int64_t row = 0;
  for (; row + 2 <= product.rows; row += 2) {
    multiply_columns<Format, 2, kVectors>(product, row, output, count);
  }
  if (row < product.rows) multiply_columns<Format, 1, kVectors>(product, row, output, count);
}

// A MultiplyRows for weights [depth, outputs]: computes all rows, and outputs [begin, end), of y.
template <typename Format>
inline void multiply_rows_in_out(const RowsProduct& product, int64_t begin, int64_t end) {
  constexpr int64_t kStep = Format::kStep, kTogether = kTileVectors * kStep;
  int64_t output = begin;
  for (; output + kTogether <= end; output += kTogether) {
    multiply_rows_of_columns<Format, kTileVectors>(product, output, kTogether);
  }
  for (; output < end; output += kStep) {
    multiply_rows_of_columns<Format, 1>(product, output, smaller(kStep, end - output));
  }
}

}  // namespace
}  // namespace colossal::ops::kernels
