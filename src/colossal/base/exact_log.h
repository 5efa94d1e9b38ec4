// exact_log(): the natural logarithm, with the same bits on every CPU and for any vector width.
// Used for random numbers that must not depend on the machine. Computed only with IEEE add,
// multiply and divide (no library call, no fused multiply-add). Sources that include this header
// must be compiled with -ffp-contract=off.
#pragma once

#include <cstdint>

namespace colossal {

// Returns the natural logarithm of x with a relative error of a few 1e-16. x: positive, finite and
// normal. Method: x = 2^k * m with an integer k and m in [1/sqrt(2), sqrt(2)), so log x = k log 2 +
// log m; log m = 2 atanh(s) with s = (m - 1) / (m + 1), by the Taylor series of atanh.
[[gnu::always_inline]] inline double exact_log(double x) {
  const uint64_t bits = __builtin_bit_cast(uint64_t, x);
  const uint64_t shifted = bits - __builtin_bit_cast(uint64_t, 0x1.6a09e667f3bcdp-1);
  // k + 1023. It is converted to double by bit operations, because the conversion of 64-bit
  // integers has no vector form below AVX-512.
  const uint64_t exponent = (shifted + (uint64_t{1023} << 52)) >> 52;
  const double k = __builtin_bit_cast(double, exponent | 0x4330000000000000) - (0x1p52 + 1023.0);
  const double m = __builtin_bit_cast(double, bits - ((exponent - 1023) << 52));
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double series = 1.0 / 23.0;
  series = series * z + 1.0 / 21.0;
  series = series * z + 1.0 / 19.0;
  series = series * z + 1.0 / 17.0;
  series = series * z + 1.0 / 15.0;
  series = series * z + 1.0 / 13.0;
  series = series * z + 1.0 / 11.0;
  series = series * z + 1.0 / 9.0;
  series = series * z + 1.0 / 7.0;
  series = series * z + 1.0 / 5.0;
  series = series * z + 1.0 / 3.0;
  const double log_m = 2.0 * s + 2.0 * s * (z * series);
  // ln 2 in two parts; k times the first part is exact.
  return k * 0x1.62e42fefa38p-1 + (k * 0x1.ef35793c7673p-45 + log_m);
}

}  // namespace colossal
