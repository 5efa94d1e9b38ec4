// The kernels convert(), accumulate(), squared_norm(), all_finite() and adamw() of VectorKernels,
// which describes their parameters. convert() computes to <- scale * from; accumulate() computes to
// <- to + from; squared_norm() returns the sum of the squares; adamw() updates elements [begin,
// end). A function whose name ends in _as computes in one compute type, Real.
#pragma once

#include "colossal/ops/kernels/block.h"

namespace colossal::ops::kernels {
namespace {

template <typename Real>
inline void convert_as(const void* from, ElementType from_type, void* to, ElementType to_type,
                       int64_t count, double scale) {
  alignas(kVectorBytes) Real buffer[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = smaller(kBlock, count - begin);
    widen_block(from, from_type, begin, size, buffer);
    if (scale != 1.0) {
      const Real factor = static_cast<Real>(scale);
      for (int64_t i = 0; i < size; ++i) buffer[i] *= factor;
    }
    narrow_block(buffer, size, to, to_type, begin);
  }
}

inline void convert(const void* from, ElementType from_type, void* to, ElementType to_type,
                    int64_t count, double scale) {
  const bool wide = from_type == ElementType::float64 || to_type == ElementType::float64;
  (wide ? convert_as<double> : convert_as<float>)(from, from_type, to, to_type, count, scale);
}

// Computes to[i] <- to[i] + from[i] for i in [0, count).
template <typename Real>
inline void add_block(const Real* __restrict from, Real* __restrict to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

template <typename Real>
inline void accumulate_as(const void* from, ElementType from_type, void* to, ElementType to_type,
                          int64_t count) {
  alignas(kVectorBytes) Real from_buffer[kBlock];
  alignas(kVectorBytes) Real to_buffer[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = smaller(kBlock, count - begin);
    Real* sum = modify_block(to, to_type, begin, size, to_buffer);
    add_block(read_block(from, from_type, begin, size, from_buffer), sum, size);
    write_block(sum, size, to, to_type, begin);
  }
}

inline void accumulate(const void* from, ElementType from_type, void* to, ElementType to_type,
                       int64_t count) {
  const bool wide = from_type == ElementType::float64 || to_type == ElementType::float64;
  (wide ? accumulate_as<double> : accumulate_as<float>)(from, from_type, to, to_type, count);
}

inline double squared_norm(const void* data, ElementType type, int64_t count) {
  alignas(kVectorBytes) double buffer[kBlock];
  // Four independent sums hide the latency of an addition.
  constexpr int64_t kChains = 4;
  constexpr int64_t kLanes = Vector<double>::kLanes;
  Vector<double>::Type sums[kChains] = {};
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = smaller(kBlock, count - begin);
    widen_block(data, type, begin, size, buffer);
    for (int64_t i = size; i < kBlock && i % (kChains * kLanes) != 0; ++i) buffer[i] = 0;
    for (int64_t i = 0; i < size; i += kChains * kLanes) {
      for (int64_t chain = 0; chain < kChains; ++chain) {
        const auto x = load_vector(buffer + i + chain * kLanes);
        sums[chain] += x * x;
      }
    }
  }
  return sum_lanes<double>((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// Returns whether all of `count` floating-point numbers are finite. Bits: the unsigned integer of
// their size. exponent: the mask of the exponent bits; these bits are all ones exactly for infinity
// and NaN.
template <typename Bits>
inline bool all_exponents_finite(const void* data, int64_t count, Bits exponent) {
  const Bits* bits = static_cast<const Bits*>(data);
  Bits bad = 0;
  for (int64_t i = 0; i < count; ++i) {
    bad |= static_cast<Bits>((bits[i] & exponent) == exponent ? 1 : 0);
  }
  return bad == 0;
}

inline bool all_finite(const void* data, ElementType type, int64_t count) {
  if (type == ElementType::float64)
    return all_exponents_finite<uint64_t>(data, count, 0x7FF0000000000000);
  if (type == ElementType::float32) return all_exponents_finite<uint32_t>(data, count, 0x7F800000);
  return all_exponents_finite<uint16_t>(data, count, 0x7F80);
}

inline float square_root(float x) {
  return __builtin_sqrtf(x);
}
inline double square_root(double x) {
  return __builtin_sqrt(x);
}

// Updates `count` elements: weight, first moment and second moment. Computes in Real.
template <typename Real>
inline void adamw_block(Real* __restrict weight, Real* __restrict first, Real* __restrict second,
                        const Real* __restrict gradient, int64_t count,
                        const AdamWFactors& factors) {
  const Real scale = static_cast<Real>(factors.gradient_scale);
  const Real first_rate = static_cast<Real>(1 - factors.beta1);
  const Real beta2 = static_cast<Real>(factors.beta2);
  const Real second_rate = static_cast<Real>(1 - factors.beta2);
  const Real decay = static_cast<Real>(factors.decay);
  const Real step_size = static_cast<Real>(-factors.step_size);
  const Real root_correction = static_cast<Real>(factors.root_correction);
  const Real epsilon = static_cast<Real>(factors.epsilon);
  for (int64_t i = 0; i < count; ++i) {
    const Real g = gradient[i] * scale;
    const Real m = first[i] + first_rate * (g - first[i]);
    const Real v = second[i] * beta2 + second_rate * g * g;
    const Real denominator = square_root(v) / root_correction + epsilon;
    first[i] = m;
    second[i] = v;
    weight[i] = weight[i] * decay + step_size * m / denominator;
  }
}

template <typename Real>
inline void adamw_as(const AdamWArrays& arrays, int64_t begin, int64_t end,
                     const AdamWFactors& factors) {
  alignas(kVectorBytes) Real gradient_buffer[kBlock];
  alignas(kVectorBytes) Real first_buffer[kBlock];
  alignas(kVectorBytes) Real second_buffer[kBlock];
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t size = smaller(kBlock, end - at);
    Real* weight = static_cast<Real*>(arrays.master) + at;
    Real* first = modify_block(arrays.first_moment, arrays.moment_type, at, size, first_buffer);
    Real* second = modify_block(arrays.second_moment, arrays.moment_type, at, size, second_buffer);
    adamw_block(weight, first, second,
                read_block(arrays.gradient, arrays.gradient_type, at, size, gradient_buffer), size,
                factors);
    write_block(first, size, arrays.first_moment, arrays.moment_type, at);
    write_block(second, size, arrays.second_moment, arrays.moment_type, at);
    if (arrays.working) narrow_block(weight, size, arrays.working, arrays.working_type, at);
  }
}

inline void adamw(const AdamWArrays& arrays, int64_t begin, int64_t end,
                  const AdamWFactors& factors) {
  const bool wide = arrays.master_type == ElementType::float64;
  (wide ? adamw_as<double> : adamw_as<float>)(arrays, begin, end, factors);
}

}  // namespace
}  // namespace colossal::ops::kernels
