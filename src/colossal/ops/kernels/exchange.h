// A step of transposing a square matrix that is held in vector registers, one row per register.
// transpose.h and pack.h use it.
#pragma once

namespace colossal::ops::kernels {
namespace {

// Divides the matrix `rows` into square submatrices of side 2 * kStep. In each of them, swaps the
// upper right quadrant with the lower left quadrant; both have side kStep. Calls for kStep = 1, 2,
// 4, .., kSize / 2 transpose the matrix.
//   kSize  number of rows and of columns, a power of two
//   Row    vector of kSize unsigned integers
template <int kSize, int kStep, typename Row>
[[gnu::always_inline]] inline void exchange_blocks(Row* rows) {
  Row low, high;
  for (int lane = 0; lane < kSize; ++lane) {
    low[lane] = lane & kStep ? kSize + lane - kStep : lane;
    high[lane] = lane & kStep ? kSize + lane : lane + kStep;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kSize; ++i) {
    if (i & kStep) continue;
    const Row a = rows[i], b = rows[i + kStep];
    rows[i] = __builtin_shuffle(a, b, low);
    rows[i + kStep] = __builtin_shuffle(a, b, high);
  }
}

}  // namespace
}  // namespace colossal::ops::kernels
