// tanh() over vectors, by exact IEEE steps: the same bits on every CPU.
//
// Near zero by the polynomials of S. Moshier's Cephes library, beyond that 1 - 2 / (1 + exp(2
// |x|)). Relative error below 3e-7 (float) and 1e-15 (double); NaN stays NaN.
#pragma once

#include "colossal/ops/kernels/exponential.h"
#include "colossal/ops/kernels/sigmoid.h"

namespace colossal::ops::kernels {
namespace {

// tanh(x) / x - 1 for |x| < 5/8, z = x^2
[[gnu::always_inline]] inline NativeVector<float> small_tangent(NativeVector<float> z) {
  NativeVector<float> series = -5.70498872745e-3F * z + 2.06390887954e-2F;
  series = series * z - 5.37397155531e-2F;
  series = series * z + 1.33314422036e-1F;
  return (series * z - 3.33332819422e-1F) * z;
}

[[gnu::always_inline]] inline NativeVector<double> small_tangent(NativeVector<double> z) {
  NativeVector<double> top = -9.64399179425052238628e-1 * z - 9.92877231001918586564e1;
  top = top * z - 1.61468768441708447952e3;
  NativeVector<double> bottom = z + 1.12811678491632931402e2;
  bottom = bottom * z + 2.23548839060100448583e3;
  bottom = bottom * z + 4.84406305325125486048e3;
  return top / bottom * z;
}

template <typename Real>
[[gnu::always_inline]] inline NativeVector<Real> hyperbolic_tangent(NativeVector<Real> x) {
  const NativeVector<Real> size = x < Real{0} ? -x : x;
  const auto twice = static_cast<Real>(2 * kLog2OfE);
  const NativeVector<Real> beyond = Real{1} - Real{2} * sigmoid_of_power<Real>(size * twice);
  const NativeVector<Real> near = x + x * small_tangent(x * x);
  return size < static_cast<Real>(0.625) ? near : x < Real{0} ? -beyond : beyond;
}

}  // namespace
}  // namespace colossal::ops::kernels
