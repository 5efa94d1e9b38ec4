// Rotary positions (J. Su et al., "RoFormer", 2021): channel i of a head turns with channel i +
// half.
#pragma once

#include "colossal/ops/kernels/block.h"

namespace colossal::ops::kernels {
namespace {

template <typename Real>
inline void rotate_as(const void* x, const Real* cosines, const Real* sines, void* to,
                      ElementType type, int64_t heads, int64_t half) {
  alignas(kVectorBytes) Real firsts[kBlock];
  alignas(kVectorBytes) Real seconds[kBlock];
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t channel = 0; channel < half; channel += kBlock) {
      const int64_t size = smaller(kBlock, half - channel);
      const int64_t first_begin = 2 * head * half + channel, second_begin = first_begin + half;
      widen_block(x, type, first_begin, size, firsts);
      widen_block(x, type, second_begin, size, seconds);
      for (int64_t i = 0; i < size; ++i) {
        const Real cosine = cosines[channel + i], sine = sines[channel + i];
        const Real first = firsts[i], second = seconds[i];
        firsts[i] = first * cosine - second * sine;
        seconds[i] = second * cosine + first * sine;
      }
      narrow_block(firsts, size, to, type, first_begin);
      narrow_block(seconds, size, to, type, second_begin);
    }
  }
}

inline void rotate(const void* x, const void* cosines, const void* sines, void* to,
                   ElementType type, int64_t heads, int64_t half) {
  if (type == ElementType::float64) {
    rotate_as(x, static_cast<const double*>(cosines), static_cast<const double*>(sines), to, type,
              heads, half);
  } else {
    rotate_as(x, static_cast<const float*>(cosines), static_cast<const float*>(sines), to, type,
              heads, half);
  }
}

}  // namespace
}  // namespace colossal::ops::kernels
