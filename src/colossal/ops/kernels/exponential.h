// exp(x) and 2^x from basic IEEE operations, so that loops vectorize and give the same bits on
// every CPU.
//
// In all functions, results below about the smallest normal number become 0. So masked scores can
// be -infinity. NaN stays NaN. The functions do not handle overflow: x has an upper bound.
#pragma once

#include "colossal/ops/kernels/native_vector.h"

namespace colossal::ops::kernels {
namespace {

// Returns exp(x), with a relative error below 2e-7. x must not exceed 80. Method: x = n ln 2 + r
// with an integer n and |r| <= ln 2 / 2; then exp(x) = 2^n exp(r), with exp(r) by its Taylor
// series.
[[gnu::always_inline]] inline float exponential(float x) {
  const float rounder = 0x1.8p23F;  // adding it leaves the nearest integer in the low bits
  const float shifted = x * 0x1.715476p0F + rounder;
  const float n = shifted - rounder;
  const float r = (x - n * 0x1.62e4p-1F) - n * 0x1.7f7d1cp-20F;
  float series = 1.0F / 5040.0F;
  series = series * r + 1.0F / 720.0F;
  series = series * r + 1.0F / 120.0F;
  series = series * r + 1.0F / 24.0F;
  series = series * r + 1.0F / 6.0F;
  series = series * r + 0.5F;
  series = series * r + 1.0F;
  series = series * r + 1.0F;
  const uint32_t exponent =
      __builtin_bit_cast(uint32_t, shifted) - __builtin_bit_cast(uint32_t, rounder) + 127;
  const float power = __builtin_bit_cast(float, exponent << 23);
  return x < -87.0F ? 0.0F : series * power;
}

// Returns exp(x), with a relative error below 5e-16. x must not exceed 700. Uses the method of the
// float version.
[[gnu::always_inline]] inline double exponential(double x) {
  const double rounder = 0x1.8p52;
  const double shifted = x * 0x1.71547652b82fep0 + rounder;
  const double n = shifted - rounder;
  const double r = (x - n * 0x1.62e42fefa38p-1) - n * 0x1.ef35793c7673p-45;
  double series = 1.0 / 6227020800.0;
  series = series * r + 1.0 / 479001600.0;
  series = series * r + 1.0 / 39916800.0;
  series = series * r + 1.0 / 3628800.0;
  series = series * r + 1.0 / 362880.0;
  series = series * r + 1.0 / 40320.0;
  series = series * r + 1.0 / 5040.0;
  series = series * r + 1.0 / 720.0;
  series = series * r + 1.0 / 120.0;
  series = series * r + 1.0 / 24.0;
  series = series * r + 1.0 / 6.0;
  series = series * r + 0.5;
  series = series * r + 1.0;
  series = series * r + 1.0;
  const uint64_t exponent =
      __builtin_bit_cast(uint64_t, shifted) - __builtin_bit_cast(uint64_t, rounder) + 1023;
  const double power = __builtin_bit_cast(double, exponent << 52);
  return x < -708.0 ? 0.0 : series * power;
}

// Returns 2^f for each lane, by a polynomial fitted for the least relative error. |f| must be at
// most 1/2.
[[gnu::always_inline]] inline NativeVector<float> power_series(NativeVector<float> f) {
  NativeVector<float> series = 0x1.5c08e6p-10F * f + 0x1.3d0c52p-7F;
  series = series * f + 0x1.c6b6e4p-5F;
  series = series * f + 0x1.ebf918p-3F;
  series = series * f + 0x1.62e428p-1F;
  return series * f + 0x1.000002p+0F;
}

// Returns 2^x for each lane, with a relative error below 2e-7. x must not exceed 127. Method: x = n
// + f with an integer n and |f| <= 1/2; then 2^x = 2^n 2^f.
[[gnu::always_inline]] inline NativeVector<float> power_of_two(NativeVector<float> x) {
  const float rounder = 0x1.8p23F;
  const NativeVector<float> shifted = x + rounder;
  const NativeVector<float> series = power_series(x - (shifted - rounder));
  typedef NativeVector<uint32_t> Bits;
  const Bits exponent = (Bits)shifted - (__builtin_bit_cast(uint32_t, rounder) - 127);
  const NativeVector<float> power = (NativeVector<float>)(exponent << 23);
  return x < -126.0F ? NativeVector<float>{} : series * power;
}

// Returns 2^x for each lane, with a relative error below 5e-16. x must not exceed 1023.
[[gnu::always_inline]] inline NativeVector<double> power_of_two(NativeVector<double> x) {
  const double rounder = 0x1.8p52;
  const NativeVector<double> shifted = x + rounder;
  const NativeVector<double> f = x - (shifted - rounder);
  NativeVector<double> series = 0x1.e7aa1c12faa3cp-32 * f + 0x1.e620fb67ac6ddp-28;
  series = series * f + 0x1.b5267882d5309p-24;
  series = series * f + 0x1.62bfc3c1d2153p-20;
  series = series * f + 0x1.ffcbfba7bc9a1p-17;
  series = series * f + 0x1.43091310bf66dp-13;
  series = series * f + 0x1.5d87fe78cf260p-10;
  series = series * f + 0x1.3b2ab6fb9f413p-7;
  series = series * f + 0x1.c6b08d7049fd1p-5;
  series = series * f + 0x1.ebfbdff82c5adp-3;
  series = series * f + 0x1.62e42fefa39efp-1;
  series = series * f + 0x1.0000000000000p+0;
  typedef NativeVector<uint64_t> Bits;
  const Bits exponent = (Bits)shifted - (__builtin_bit_cast(uint64_t, rounder) - 1023);
  const NativeVector<double> power = (NativeVector<double>)(exponent << 52);
  return x < -1022.0 ? NativeVector<double>{} : series * power;
}

}  // namespace
}  // namespace colossal::ops::kernels
