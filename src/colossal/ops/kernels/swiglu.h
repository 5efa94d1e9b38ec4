// SwiGLU (N. Shazeer, "GLU Variants Improve Transformer", 2020): silu(gate) * up, with silu(x) = x
// / (1 + exp(-x)).
#pragma once

#include "colossal/ops/kernels/block.h"
#include "colossal/ops/kernels/sigmoid.h"

namespace colossal::ops::kernels {
namespace {

template <typename Real>
[[gnu::always_inline]] inline NativeVector<Real> sigmoid(NativeVector<Real> x) {
  return sigmoid_of_power<Real>(static_cast<Real>(-kLog2OfE) * x);
}

template <typename Real>
inline void swiglu_as(const void* gate, const void* up, void* to, ElementType type, int64_t count) {
  alignas(kVectorBytes) Real gates[kBlock];
  alignas(kVectorBytes) Real ups[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = smaller(kBlock, count - begin);
    widen_block(gate, type, begin, size, gates);
    widen_block(up, type, begin, size, ups);
    pad_block(gates, size, Real{0});
    pad_block(ups, size, Real{0});
    for (int64_t i = 0; i < size; i += Native<Real>::kLanes) {
      const NativeVector<Real> x = load_native(gates + i);
      store_native(x * sigmoid<Real>(x) * load_native(ups + i), gates + i);
    }
    narrow_block(gates, size, to, type, begin);
  }
}

inline void swiglu(const void* gate, const void* up, void* to, ElementType type, int64_t count) {
  (type == ElementType::float64 ? swiglu_as<double> : swiglu_as<float>)(gate, up, to, type, count);
}

template <typename Real>
inline void swiglu_backward_as(const void* gradient, const void* gate, const void* up,
                               void* gate_gradient, void* up_gradient, ElementType type,
                               int64_t count) {
  alignas(kVectorBytes) Real gradients[kBlock];
  alignas(kVectorBytes) Real gates[kBlock];
  alignas(kVectorBytes) Real ups[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = smaller(kBlock, count - begin);
    widen_block(gradient, type, begin, size, gradients);
    widen_block(gate, type, begin, size, gates);
    widen_block(up, type, begin, size, ups);
    pad_block(gradients, size, Real{0});
    pad_block(gates, size, Real{0});
    pad_block(ups, size, Real{0});
    for (int64_t i = 0; i < size; i += Native<Real>::kLanes) {
      const NativeVector<Real> x = load_native(gates + i);
      const NativeVector<Real> out = load_native(gradients + i);
      const NativeVector<Real> open = sigmoid<Real>(x);
      const NativeVector<Real> silu = x * open;
      const NativeVector<Real> slope = open + silu * (Real{1} - open);
      store_native(out * load_native(ups + i) * slope, gates + i);
      store_native(out * silu, ups + i);
    }
    narrow_block(gates, size, gate_gradient, type, begin);
    narrow_block(ups, size, up_gradient, type, begin);
  }
}

inline void swiglu_backward(const void* gradient, const void* gate, const void* up,
                            void* gate_gradient, void* up_gradient, ElementType type,
                            int64_t count) {
  const bool wide = type == ElementType::float64;
  (wide ? swiglu_backward_as<double> : swiglu_backward_as<float>)(gradient, gate, up, gate_gradient,
                                                                  up_gradient, type, count);
}

}  // namespace
}  // namespace colossal::ops::kernels
