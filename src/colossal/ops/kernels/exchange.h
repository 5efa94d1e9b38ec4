// One step of a transpose in registers.
#pragma once

namespace colossal::ops::kernels {
namespace {

// rows: a square matrix, kSize vectors of kSize unsigned integers each. Cuts it into submatrices of
// side 2 * kStep and, in each, swaps the upper right block of side kStep with the lower left one.
// The calls for kStep = 1, 2, 4 .. kSize / 2 together transpose the matrix.
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
