// The kernel rotate() of VectorKernels: rotary position embedding (J. Su et al., "RoFormer", 2021)
// of the heads of one token. Rotates pairs of channels of each head: the channels (i, half + i) or,
// if interleaved, (2 i, 2 i + 1), for i in [0, half). Channels from 2 * half on are copied.
//
// Arguments of the functions below, where they have them: x, the input, and `to`, the output, are
// [heads.count, heads.size] contiguous elements of `type`. cosines, sines: [half], of the angle of
// each pair; the same for all heads. Real is the compute type: double if `type` is float64, else
// float.
#pragma once

#include "colossal/ops/kernels/block.h"

namespace colossal::ops::kernels {
namespace {

// Rotates the vector (first, second) by the angle with this cosine and sine, in place.
template <typename Real>
[[gnu::always_inline]] inline void rotate_pair(Real& first, Real& second, Real cosine, Real sine) {
  const Real a = first, b = second;
  first = a * cosine - b * sine;
  second = b * cosine + a * sine;
}

// Rotates the pairs (i, half + i) of the head whose first element is x[head_begin], and writes them
// to the same elements of `to`.
template <typename Real>
[[gnu::always_inline]] inline void rotate_half_pairs(const void* x, const Real* cosines,
                                                     const Real* sines, void* to, ElementType type,
                                                     int64_t head_begin, int64_t half) {
  alignas(kVectorBytes) Real firsts[kBlock];
  alignas(kVectorBytes) Real seconds[kBlock];
  for (int64_t channel = 0; channel < half; channel += kBlock) {
    const int64_t size = smaller(kBlock, half - channel);
    const int64_t first_begin = head_begin + channel, second_begin = first_begin + half;
    widen_block(x, type, first_begin, size, firsts);
    widen_block(x, type, second_begin, size, seconds);
    for (int64_t i = 0; i < size; ++i) {
      rotate_pair(firsts[i], seconds[i], cosines[channel + i], sines[channel + i]);
    }
    narrow_block(firsts, size, to, type, first_begin);
    narrow_block(seconds, size, to, type, second_begin);
  }
}

// Rotates the pairs (2 i, 2 i + 1) of the head whose first element is x[head_begin], and writes
// them to the same elements of `to`.
template <typename Real>
[[gnu::always_inline]] inline void rotate_adjacent_pairs(const void* x, const Real* cosines,
                                                         const Real* sines, void* to,
                                                         ElementType type, int64_t head_begin,
                                                         int64_t half) {
  alignas(kVectorBytes) Real pairs[kBlock];
  for (int64_t channel = 0; channel < half; channel += kBlock / 2) {
    const int64_t size = smaller(kBlock / 2, half - channel);
    const int64_t begin = head_begin + 2 * channel;
    widen_block(x, type, begin, 2 * size, pairs);
    for (int64_t i = 0; i < size; ++i) {
      rotate_pair(pairs[2 * i], pairs[2 * i + 1], cosines[channel + i], sines[channel + i]);
    }
    narrow_block(pairs, 2 * size, to, type, begin);
  }
}

// Copies elements [begin, begin + count) of x to elements [begin, begin + count) of `to`.
inline void copy_elements(const void* x, void* to, ElementType type, int64_t begin, int64_t count) {
  const int64_t bytes = type == ElementType::float64 ? 8 : type == ElementType::float32 ? 4 : 2;
  __builtin_memcpy(static_cast<char*>(to) + begin * bytes,
                   static_cast<const char*>(x) + begin * bytes, count * bytes);
}

// rotate() for one compute type and one kind of pairs; heads.interleaved is not read. cosines and
// sines are numbers of type Real.
template <typename Real, bool kInterleaved>
inline void rotate_as(const void* x, const void* cosines, const void* sines, void* to,
                      ElementType type, RotatedHeads heads) {
  const Real* const c = static_cast<const Real*>(cosines);
  const Real* const s = static_cast<const Real*>(sines);
  for (int64_t head = 0; head < heads.count; ++head) {
    const int64_t begin = head * heads.size, end = begin + 2 * heads.half;
    if constexpr (kInterleaved) {
      rotate_adjacent_pairs(x, c, s, to, type, begin, heads.half);
    } else {
      rotate_half_pairs(x, c, s, to, type, begin, heads.half);
    }
    if (2 * heads.half < heads.size) {
      copy_elements(x, to, type, end, heads.size - 2 * heads.half);
    }
  }
}

// Rotates all heads of a token. cosines and sines are numbers of the compute type.
inline void rotate(const void* x, const void* cosines, const void* sines, void* to,
                   ElementType type, const RotatedHeads& heads) {
  if (type == ElementType::float64) {
    (heads.interleaved ? rotate_as<double, true> : rotate_as<double, false>)(x, cosines, sines, to,
                                                                             type, heads);
  } else {
    (heads.interleaved ? rotate_as<float, true> : rotate_as<float, false>)(x, cosines, sines, to,
                                                                           type, heads);
  }
}

}  // namespace
}  // namespace colossal::ops::kernels
