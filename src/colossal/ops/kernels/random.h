// The kernels fill_normal() and dropout() of VectorKernels. They take random words from the
// counter-based generator of base/random.h: rows of 32-bit words, each divided into groups of 64
// words. vector_kernels.h describes the parameters.
#pragma once

#include "colossal/base/inverse_normal.h"
#include "colossal/ops/kernels/block.h"

namespace colossal::ops::kernels {
namespace {

// A uniform or normal number uses two words of a group, w and w + 32, so a group has 32 = 2^5
// numbers. A row has 2^32 numbers, from its first 2^33 words: 2^(32 - 5) groups. The rows of a key
// follow each other: number i of a key is number i % 2^32 of row i / 2^32.
constexpr int64_t kNormalsInGroup = kRandomGroup / 2;
constexpr int kNormalsInRowBits = 32;

// Writes the uniform numbers [32 * group, 32 * (group + 1)) of `key` to uniforms[0, 32). Each
// number is in (0, 1).
inline void uniforms_of_group(RandomKey key, int64_t group, double* __restrict uniforms) {
  const int64_t row = group >> (kNormalsInRowBits - 5);
  const uint32_t within =
      static_cast<uint32_t>(group & ((int64_t{1} << (kNormalsInRowBits - 5)) - 1));
  uint32_t words[kRandomGroup];
  random_words({key, {static_cast<uint32_t>(row), static_cast<uint32_t>(row >> 32), 0}}, within,
               words);
  for (int64_t i = 0; i < kNormalsInGroup; ++i) {
    uniforms[i] = open_uniform(words[i], words[i + kNormalsInGroup]);
  }
}

// Writes the uniform numbers [begin, begin + count) of `key` to uniforms[0, count).
inline void fill_uniforms(RandomKey key, int64_t begin, int64_t count, double* uniforms) {
  double group[kNormalsInGroup];
  for (int64_t done = 0; done < count;) {
    const int64_t first = (begin + done) % kNormalsInGroup;
    const int64_t size = smaller(kNormalsInGroup - first, count - done);
    uniforms_of_group(key, (begin + done) / kNormalsInGroup, group);
    for (int64_t i = 0; i < size; ++i) uniforms[done + i] = group[first + i];
    done += size;
  }
}

// Replaces each of numbers[0, count), uniform in (0, 1), by the inverse of the standard normal
// distribution function. count: at most kBlock. First uses the formula for the central part (85 %
// of the numbers) for all numbers. Then recomputes the numbers in the tails with another formula.
inline void inverse_normal_block(double* __restrict numbers, int64_t count) {
  double tails[kBlock];
  int32_t places[kBlock];
  int64_t tail_count = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double q = numbers[i] - 0.5;
    places[tail_count] = static_cast<int32_t>(i);
    tails[tail_count] = numbers[i];
    tail_count += !(q <= kInverseNormalCentral && q >= -kInverseNormalCentral);
  }
  for (int64_t i = 0; i < count; ++i) numbers[i] = inverse_normal_central(numbers[i] - 0.5);
  for (int64_t i = 0; i < tail_count; ++i) tails[i] = inverse_normal_tail(tails[i]);
  for (int64_t i = 0; i < tail_count; ++i) numbers[places[i]] = tails[i];
}

// VectorKernels::fill_normal: to[i] = mean + deviation * (normal number begin + i of `key`) for i
// in [0, count), rounded to `type`.
inline void fill_normal(RandomKey key, int64_t begin, int64_t count, double mean, double deviation,
                        void* to, ElementType type) {
  double numbers[kBlock];
  for (int64_t done = 0; done < count; done += kBlock) {
    const int64_t size = smaller(kBlock, count - done);
    fill_uniforms(key, begin + done, size, numbers);
    inverse_normal_block(numbers, size);
    for (int64_t i = 0; i < size; ++i) numbers[i] = mean + deviation * numbers[i];
    narrow_block(numbers, size, to, type, done);
  }
}

// Sets factors[i], for i in [0, count), to the factor by which dropout multiplies element begin + i
// of a row: 0 or rule.scale.
template <typename Real>
inline void keep_factors(const RandomRow& row, const DropoutRule& rule, int64_t begin,
                         int64_t count, Real* __restrict factors) {
  const Real scale = static_cast<Real>(rule.scale);
  for (int64_t done = 0; done < count;) {
    const int64_t first = (begin + done) % kRandomGroup;
    const int64_t size = smaller(kRandomGroup - first, count - done);
    uint32_t words[kRandomGroup];
    random_words(row, static_cast<uint32_t>((begin + done) / kRandomGroup), words);
    for (int64_t i = 0; i < size; ++i) {
      factors[done + i] = words[first + i] >= rule.threshold ? scale : Real{0};
    }
    done += size;
  }
}

// dropout(), computed in type Real.
template <typename Real>
inline void dropout_as(const RandomRow& row, const DropoutRule& rule, int64_t begin, int64_t count,
                       const void* from, void* to, ElementType type) {
  Real values[kBlock];
  Real factors[kBlock];
  for (int64_t done = 0; done < count; done += kBlock) {
    const int64_t size = smaller(kBlock, count - done);
    widen_block(from, type, done, size, values);
    keep_factors(row, rule, begin + done, size, factors);
    for (int64_t i = 0; i < size; ++i) values[i] *= factors[i];
    narrow_block(values, size, to, type, done);
  }
}

// VectorKernels::dropout: to[i] = from[i] * (factor of element begin + i of the row, as for
// keep_factors()) for i in [0, count). from, to: of type `type`.
inline void dropout(const RandomRow& row, const DropoutRule& rule, int64_t begin, int64_t count,
                    const void* from, void* to, ElementType type) {
  const bool wide = type == ElementType::float64;
  (wide ? dropout_as<double> : dropout_as<float>)(row, rule, begin, count, from, to, type);
}

}  // namespace
}  // namespace colossal::ops::kernels
