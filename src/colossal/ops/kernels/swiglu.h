// SwiGLU (N. Shazeer, "GLU Variants Improve Transformer", 2020): silu(gate) * up, with silu(x) = x
// / (1 + exp(-x)).
#pragma once

#include "colossal/ops/kernels/block.h"
#include "colossal/ops/kernels/exponential.h"

namespace colossal::ops::kernels {
namespace {

template <typename Real>
[[gnu::always_inline]] inline Real sigmoid(Real x) {
  const Real largest = sizeof(Real) == 8 ? 700 : 80;  // of what exponential() takes
  return Real{1} / (Real{1} + exponential(-x > largest ? largest : -x));
}

template <typename Real>
inline void swiglu_as(const void* gate, const void* up, void* to, ElementType type, int64_t count) {
  alignas(kVectorBytes) Real gates[kBlock];
  alignas(kVectorBytes) Real ups[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = smaller(kBlock, count - begin);
    widen_block(gate, type, begin, size, gates);
    widen_block(up, type, begin, size, ups);
    for (int64_t i = 0; i < size; ++i) gates[i] = gates[i] * sigmoid(gates[i]) * ups[i];
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
    for (int64_t i = 0; i < size; ++i) {
      const Real open = sigmoid(gates[i]);
      const Real silu = gates[i] * open;
      gates[i] = gradients[i] * ups[i] * (open + silu * (Real{1} - open));
      ups[i] = gradients[i] * silu;
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
