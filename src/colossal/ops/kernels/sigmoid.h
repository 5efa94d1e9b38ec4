// The sigmoid function of vectors, computed from a power of two, for activations and tanh.
#pragma once

#include "colossal/ops/kernels/exponential.h"

namespace colossal::ops::kernels {
namespace {

constexpr double kLog2OfE = 1.4426950408889634;

// Returns 1 / (1 + 2^exponent) for each lane. This is sigmoid(x) for exponent = -x * kLog2OfE. NaN
// stays NaN.
template <typename Real>
[[gnu::always_inline]] inline NativeVector<Real> sigmoid_of_power(NativeVector<Real> exponent) {
  // Keeps 2^exponent below overflow (2^128 or 2^1024), with a margin. At this exponent the result
  // is practically 0.
  const NativeVector<Real> largest = broadcast(static_cast<Real>(sizeof(Real) == 8 ? 1000 : 115));
  return Real{1} / (Real{1} + power_of_two(exponent > largest ? largest : exponent));
}

}  // namespace
}  // namespace colossal::ops::kernels
