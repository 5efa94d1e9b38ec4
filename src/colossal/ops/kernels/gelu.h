// GELU by the tanh approximation: 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2u)), with
// u = sqrt(2/pi) (x + 0.044715 x^3).
#pragma once

#include "colossal/ops/kernels/block.h"
#include "colossal/ops/kernels/exponential.h"

namespace colossal::ops::kernels {
namespace {

constexpr double kTwiceRoot = 1.5957691216057308;  // 2 sqrt(2/pi)
constexpr double kCubic = 0.044715;
// exp() of more would overflow; 1 / (1 + exp(80)) is 0 for all purposes.
constexpr double kLargestExponent = 80;

template <typename Real>
[[gnu::always_inline]] inline Real gelu_gate(Real x) {
  const Real u = static_cast<Real>(kTwiceRoot) * (x + static_cast<Real>(kCubic) * (x * x * x));
  const Real largest = static_cast<Real>(kLargestExponent);
  return Real{1} / (Real{1} + exponential(-u > largest ? largest : -u));
}

template <typename Real>
inline void gelu_new_as(const void* x, void* to, ElementType type, int64_t count) {
  alignas(kVectorBytes) Real block[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = smaller(kBlock, count - begin);
    widen_block(x, type, begin, size, block);
    for (int64_t i = 0; i < size; ++i) block[i] = block[i] * gelu_gate(block[i]);
    narrow_block(block, size, to, type, begin);
  }
}

inline void gelu_new(const void* x, void* to, ElementType type, int64_t count) {
  const bool wide = type == ElementType::float64;
  (wide ? gelu_new_as<double> : gelu_new_as<float>)(x, to, type, count);
}

template <typename Real>
inline void gelu_new_backward_as(const void* gradient, const void* x, void* to, ElementType type,
                                 int64_t count) {
  alignas(kVectorBytes) Real block[kBlock];
  alignas(kVectorBytes) Real gradient_block[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = smaller(kBlock, count - begin);
    widen_block(x, type, begin, size, block);
    widen_block(gradient, type, begin, size, gradient_block);
    for (int64_t i = 0; i < size; ++i) {
      const Real value = block[i];
      const Real gate = gelu_gate(value);
      const Real slope = static_cast<Real>(kTwiceRoot) *
                         (Real{1} + static_cast<Real>(3 * kCubic) * (value * value));
      // The gate's own derivative vanishes in both tails faster than the slope grows.
      const Real bend = gate * (Real{1} - gate) * (value * slope);
      block[i] = gradient_block[i] * (gate + bend);
    }
    narrow_block(block, size, to, type, begin);
  }
}

inline void gelu_new_backward(const void* gradient, const void* x, void* to, ElementType type,
                              int64_t count) {
  const bool wide = type == ElementType::float64;
  (wide ? gelu_new_backward_as<double> : gelu_new_backward_as<float>)(gradient, x, to, type, count);
}

}  // namespace
}  // namespace colossal::ops::kernels
