// tanh(x) of vectors from basic IEEE operations, which give the same bits on every CPU. NaN stays
// NaN.
#pragma once

#include "colossal/ops/kernels/exponential.h"
#include "colossal/ops/kernels/sigmoid.h"

namespace colossal::ops::kernels {
namespace {

// Returns tanh(x) for each lane, with a relative error below 5e-7. Computes x P(x^2) / Q(x^2) with
// polynomials P and Q that are fitted for |x| <= 9. For larger |x|, returns the value at 9 or -9,
// which is almost 1 or -1.
[[gnu::always_inline]] inline NativeVector<float> hyperbolic_tangent(NativeVector<float> x) {
  const NativeVector<float> end = broadcast(9.0F);
  x = x > end ? end : x < -end ? -end : x;
  const NativeVector<float> z = x * x;
  NativeVector<float> top = 0x1.cadf9ep-27F * z + 0x1.59c47ap-16F;
  top = top * z + 0x1.ca2d12p-9F;
  top = top * z + 0x1.120b32p-3F;
  top = top * z + 1.0F;
  NativeVector<float> bottom = 0x1.a18224p-21F * z + 0x1.5886d8p-12F;
  bottom = bottom * z + 0x1.a7f83ap-6F;
  bottom = bottom * z + 0x1.de5ae2p-2F;
  bottom = bottom * z + 1.0F;
  return x * top / bottom;
}

// Returns tanh(x) for each lane, with a relative error below 1e-15. For |x| < 5/8, uses the
// rational approximation of S. Moshier's Cephes library. Otherwise computes 1 - 2 / (1 + exp(2
// |x|)) with the sign of x.
[[gnu::always_inline]] inline NativeVector<double> hyperbolic_tangent(NativeVector<double> x) {
  const NativeVector<double> z = x * x;
  NativeVector<double> top = -9.64399179425052238628e-1 * z - 9.92877231001918586564e1;
  top = top * z - 1.61468768441708447952e3;
  NativeVector<double> bottom = z + 1.12811678491632931402e2;
  bottom = bottom * z + 2.23548839060100448583e3;
  bottom = bottom * z + 4.84406305325125486048e3;
  const NativeVector<double> near = x + x * (top / bottom * z);
  const NativeVector<double> size = x < 0.0 ? -x : x;
  const NativeVector<double> beyond = 1.0 - 2.0 * sigmoid_of_power<double>(size * (2 * kLog2OfE));
  return size < 0.625 ? near : x < 0.0 ? -beyond : beyond;
}

}  // namespace
}  // namespace colossal::ops::kernels
