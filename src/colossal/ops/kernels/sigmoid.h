// The sigmoid by a power of two, for activations that are gated by one.
#pragma once

#include "colossal/ops/kernels/exponential.h"

namespace colossal::ops::kernels {
namespace {

constexpr double kLog2OfE = 1.4426950408889634;

// 1 / (1 + 2^exponent): the sigmoid of -exponent / log2(e). NaN stays NaN.
template <typename Real>
[[gnu::always_inline]] inline NativeVector<Real> sigmoid_of_power(NativeVector<Real> exponent) {
  // 2 to more would overflow; what is left is 0 for all purposes.
  const NativeVector<Real> largest = broadcast(static_cast<Real>(sizeof(Real) == 8 ? 1000 : 115));
  return Real{1} / (Real{1} + power_of_two(exponent > largest ? largest : exponent));
}

}  // namespace
}  // namespace colossal::ops::kernels
