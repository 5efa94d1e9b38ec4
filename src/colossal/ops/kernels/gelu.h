// The kernels gelu_new() and gelu_new_backward() of VectorKernels: GELU in its tanh approximation,
// x * gate(x). Here gate(x) = 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2 u)), and u = sqrt(2/pi) (x +
// 0.044715 x^3). gelu_new() computes to <- x * gate(x), and gelu_new_backward() computes to <-
// gradient * the derivative of x * gate(x), for `count` elements. All arrays are of type `type`;
// both kernels compute in fp64 if that is fp64, otherwise in fp32.
#pragma once

#include "colossal/ops/kernels/block.h"
#include "colossal/ops/kernels/sigmoid.h"

namespace colossal::ops::kernels {
namespace {

constexpr double kTwiceRoot = 1.5957691216057308;  // 2 sqrt(2/pi)
constexpr double kCubic = 0.044715;

// Returns gate(x).
template <typename Real>
[[gnu::always_inline]] inline NativeVector<Real> gelu_gate(NativeVector<Real> x) {
  constexpr double kScale = -kTwiceRoot * kLog2OfE;
  const Real linear = static_cast<Real>(kScale), cubic = static_cast<Real>(kScale * kCubic);
  return sigmoid_of_power<Real>(x * (linear + cubic * (x * x)));
}

// Returns x * gate'(x), where gate' is the derivative. The argument `gate` must be gate(x). So the
// derivative of x * gate(x) is gate(x) + gelu_slope_term(x, gate(x)). Formula: x * gate (1 - gate)
// * 2 u', with the derivative u' of u.
template <typename Real>
[[gnu::always_inline]] inline NativeVector<Real> gelu_slope_term(NativeVector<Real> x,
                                                                 NativeVector<Real> gate) {
  const Real slope_at_zero = static_cast<Real>(kTwiceRoot);
  const Real slope_growth = static_cast<Real>(3 * kTwiceRoot * kCubic);
  const NativeVector<Real> slope = slope_at_zero + slope_growth * (x * x);
  return gate * (Real{1} - gate) * (x * slope);
}

template <typename Real>
inline void gelu_new_as(const void* x, void* to, ElementType type, int64_t count) {
  alignas(kVectorBytes) Real block[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = smaller(kBlock, count - begin);
    widen_block(x, type, begin, size, block);
    pad_block(block, size, Real{0});
    for (int64_t i = 0; i < size; i += Native<Real>::kLanes) {
      const NativeVector<Real> value = load_native(block + i);
      store_native(value * gelu_gate<Real>(value), block + i);
    }
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
    pad_block(block, size, Real{0});
    pad_block(gradient_block, size, Real{0});
    for (int64_t i = 0; i < size; i += Native<Real>::kLanes) {
      const NativeVector<Real> value = load_native(block + i);
      const NativeVector<Real> gate = gelu_gate<Real>(value);
      store_native(load_native(gradient_block + i) * (gate + gelu_slope_term<Real>(value, gate)),
                   block + i);
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
