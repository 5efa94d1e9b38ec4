// The kernels swiglu(), swiglu_backward(), geglu() and geglu_backward() of VectorKernels: gated
// linear units (N. Shazeer, "GLU Variants Improve Transformer", 2020). The result is act(gate) *
// up, where act(x) = x * factor(x). factor(x) is sigmoid(x) for SwiGLU, and the sigmoid of a cubic
// polynomial in x for GeGLU (gelu.h).
#pragma once

#include "colossal/ops/kernels/block.h"
#include "colossal/ops/kernels/gelu.h"
#include "colossal/ops/kernels/sigmoid.h"

namespace colossal::ops::kernels {
namespace {

// SiLU as a gate. Real: the compute type, float or double.
template <typename RealType>
struct SiluGate {
  using Real = RealType;
  // Returns factor(x).
  static NativeVector<Real> factor(NativeVector<Real> x) {
    return sigmoid_of_power<Real>(static_cast<Real>(-kLog2OfE) * x);
  }
  // Returns x * factor'(x), where factor' is the derivative. The argument `factor` must be
  // factor(x). So act'(x) = factor(x) + slope_term(x, factor(x)).
  static NativeVector<Real> slope_term(NativeVector<Real> x, NativeVector<Real> factor) {
    return x * factor * (Real{1} - factor);
  }
};

// GELU in its tanh approximation as a gate, with the same members as SiluGate.
template <typename RealType>
struct GeluGate {
  using Real = RealType;
  static NativeVector<Real> factor(NativeVector<Real> x) { return gelu_gate<Real>(x); }
  static NativeVector<Real> slope_term(NativeVector<Real> x, NativeVector<Real> factor) {
    return gelu_slope_term<Real>(x, factor);
  }
};

// Computes to[i] = gate[i] * factor(gate[i]) * up[i] for i in [0, count). type: of the elements of
// all arrays. Gate: SiluGate or GeluGate, with the compute type for `type`: double for float64,
// else float.
template <typename Gate>
inline void gated(const void* gate, const void* up, void* to, ElementType type, int64_t count) {
  using Real = typename Gate::Real;
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
      store_native(x * Gate::factor(x) * load_native(ups + i), gates + i);
    }
    narrow_block(gates, size, to, type, begin);
  }
}

// Computes the gradients of gate and up. gradient: of the result of gated(). Other arguments as for
// gated().
template <typename Gate>
inline void gated_backward(const void* gradient, const void* gate, const void* up,
                           void* gate_gradient, void* up_gradient, ElementType type,
                           int64_t count) {
  using Real = typename Gate::Real;
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
      const NativeVector<Real> factor = Gate::factor(x);
      const NativeVector<Real> slope = factor + Gate::slope_term(x, factor);
      store_native(out * load_native(ups + i) * slope, gates + i);
      store_native(out * (x * factor), ups + i);
    }
    narrow_block(gates, size, gate_gradient, type, begin);
    narrow_block(ups, size, up_gradient, type, begin);
  }
}

inline void swiglu(const void* gate, const void* up, void* to, ElementType type, int64_t count) {
  const bool wide = type == ElementType::float64;
  (wide ? gated<SiluGate<double>> : gated<SiluGate<float>>)(gate, up, to, type, count);
}

inline void swiglu_backward(const void* gradient, const void* gate, const void* up,
                            void* gate_gradient, void* up_gradient, ElementType type,
                            int64_t count) {
  const bool wide = type == ElementType::float64;
  (wide ? gated_backward<SiluGate<double>>
        : gated_backward<SiluGate<float>>)(gradient, gate, up, gate_gradient, up_gradient, type,
                                           count);
}

inline void geglu(const void* gate, const void* up, void* to, ElementType type, int64_t count) {
  const bool wide = type == ElementType::float64;
  (wide ? gated<GeluGate<double>> : gated<GeluGate<float>>)(gate, up, to, type, count);
}

inline void geglu_backward(const void* gradient, const void* gate, const void* up,
                           void* gate_gradient, void* up_gradient, ElementType type,
                           int64_t count) {
  const bool wide = type == ElementType::float64;
  (wide ? gated_backward<GeluGate<double>>
        : gated_backward<GeluGate<float>>)(gradient, gate, up, gate_gradient, up_gradient, type,
                                           count);
}

}  // namespace
}  // namespace colossal::ops::kernels
