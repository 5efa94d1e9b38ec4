// The loops of products of few rows: tiles of rows and outputs whose sums stay in registers.
#pragma once

#include "colossal/ops/kernels/block.h"
#include "colossal/ops/kernels/few_rows.h"
#include "colossal/ops/kernels/folded_sum.h"

namespace colossal::ops::kernels {
namespace {

// Outputs of a tile: as many streams of memory are read at once.
constexpr int kTileOutputs = 4;
// Rows of a tile: what registers hold beside a tile's weights.
#if defined(__AVX512F__)
constexpr int kTileRows = 6;
#else
constexpr int kTileRows = 2;
#endif
// Rows that go through all outputs together: they stay in the second-level cache.
constexpr int64_t kRowsTogether = 48;

// A format says how numbers are read and multiplied:
//   Element    as which they lie in memory
//   Sum        the type of a bias and of the sum of all products
//   kStep      so many numbers are a vector
//   Loaded, load(), Sums, multiply_add(), sum(): vectors of them, and of sums
//   widen(), narrow(): an Element to a Sum and back

// The numbers behind the last whole step, with zeros behind them.
template <typename Format>
[[gnu::always_inline]] inline typename Format::Loaded load_rest(
    const typename Format::Element* from, int64_t count) {
  typename Format::Element rest[Format::kStep] = {};
  for (int64_t i = 0; i < count; ++i) rest[i] = from[i];
  return Format::load(rest);
}

// ahead: the weights of the next tile's outputs are asked for.
template <typename Format, int kRows, int kOutputs>
[[gnu::always_inline]] inline void multiply_tile(const RowsProduct& product, int64_t row,
                                                 int64_t output, bool ahead) {
  typedef typename Format::Element Element;
  const Element* x = static_cast<const Element*>(product.x) + row * product.x_stride;
  const Element* weight =
      static_cast<const Element*>(product.weight) + output * product.weight_stride;
  typename Format::Sums sums[kRows][kOutputs] = {};
  const int64_t next = ahead ? kOutputs * product.weight_stride : 0;
  int64_t k = 0;
  for (; k + Format::kStep <= product.depth; k += Format::kStep) {
    typename Format::Loaded weights[kOutputs];
    for (int o = 0; o < kOutputs; ++o) {
      const Element* from = weight + o * product.weight_stride + k;
      __builtin_prefetch(from + next, 0, 2);
      weights[o] = Format::load(from);
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

// Rows [row, end) of a tile's outputs; fewer than a tile's rows by a smaller tile.
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

template <typename Format>
inline void multiply_rows(const RowsProduct& product, int64_t begin, int64_t end) {
  for (int64_t row = 0; row < product.rows; row += kRowsTogether) {
    const int64_t last = smaller(product.rows, row + kRowsTogether);
    int64_t output = begin;
    for (; output + kTileOutputs <= end; output += kTileOutputs) {
      const bool ahead = output + 2 * kTileOutputs <= end;
      multiply_outputs<Format, kTileRows, kTileOutputs>(product, row, last, output, ahead);
    }
    for (; output < end; ++output) {
      multiply_outputs<Format, kTileRows, 1>(product, row, last, output, false);
    }
  }
}

}  // namespace
}  // namespace colossal::ops::kernels
