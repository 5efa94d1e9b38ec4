#include "colossal/ops/cuda/elements.cuh"
#include "colossal/ops/cuda/kernels.h"

namespace colossal::ops::cuda {
namespace {

// act(x) = x * factor(x). slope_term() is x * factor'(x), from factor(x).
template <typename Real>
struct SiluGate {
  static __device__ Real factor(Real x) { return Real{1} / (Real{1} + exp(-x)); }
  static __device__ Real slope_term(Real x, Real factor) { return x * factor * (Real{1} - factor); }
};

// GELU in its tanh approximation: factor(x) = (1 + tanh(a (x + b x^3))) / 2.
template <typename Real>
struct GeluGate {
  static constexpr double kA = 0.79788456080286535588;  // sqrt(2 / pi)
  static constexpr double kB = 0.044715;
  static __device__ Real factor(Real x) {
    const Real inner = static_cast<Real>(kA) * (x + static_cast<Real>(kB) * x * x * x);
    return static_cast<Real>(0.5) * (Real{1} + tanh(inner));
  }
  static __device__ Real slope_term(Real x, Real factor) {
    const Real inner_slope = static_cast<Real>(kA) * (Real{1} + static_cast<Real>(3 * kB) * x * x);
    return x * Real{2} * factor * (Real{1} - factor) * inner_slope;
  }
};

// One block of threads for each row.
template <typename Element, int kCount, typename Function>
__global__ void forward(const Element* gate_up, Element* to, int64_t features, Function) {
  using Real = Compute<Element>;
  using Elements = Pack<Element, kCount>;
  const int64_t row = blockIdx.x, packs = features / kCount;
  const auto* gates = reinterpret_cast<const Elements*>(gate_up + row * 2 * features);
  auto* results = reinterpret_cast<Elements*>(to + row * features);
  for (int64_t i = threadIdx.x; i < packs; i += kThreads) {
    const Elements gate = gates[i], up = gates[i + packs];
    Elements result;
    for (int j = 0; j < kCount; ++j) {
      const Real x = widen<Real>(gate.element[j]);
      result.element[j] = narrow<Element>(x * Function::factor(x) * widen<Real>(up.element[j]));
    }
    results[i] = result;
  }
}

template <typename Element, int kCount, typename Function>
__global__ void backward(const Element* gradient, const Element* gate_up, Element* to,
                         int64_t features, Function) {
  using Real = Compute<Element>;
  using Elements = Pack<Element, kCount>;
  const int64_t row = blockIdx.x, packs = features / kCount;
  const auto* gradients = reinterpret_cast<const Elements*>(gradient + row * features);
  const auto* gates = reinterpret_cast<const Elements*>(gate_up + row * 2 * features);
  auto* results = reinterpret_cast<Elements*>(to + row * 2 * features);
  for (int64_t i = threadIdx.x; i < packs; i += kThreads) {
    const Elements upstream = gradients[i], gate = gates[i], up = gates[i + packs];
    Elements of_gate, of_up;
    for (int j = 0; j < kCount; ++j) {
      const Real of_result = widen<Real>(upstream.element[j]), x = widen<Real>(gate.element[j]);
      const Real factor = Function::factor(x);
      const Real slope = factor + Function::slope_term(x, factor);
      of_gate.element[j] = narrow<Element>(of_result * widen<Real>(up.element[j]) * slope);
      of_up.element[j] = narrow<Element>(of_result * x * factor);
    }
    results[i] = of_gate;
    results[i + packs] = of_up;
  }
}

// Calls function(Element{}, SiluGate or GeluGate{}).
template <typename Function>
void with_gate(Gate kind, ElementType type, const Function& function) {
  with_type(type, [&](auto element) {
    using Real = Compute<decltype(element)>;
    kind == Gate::silu ? function(element, SiluGate<Real>{}) : function(element, GeluGate<Real>{});
  });
}

}  // namespace

void gated_activation(Gate kind, const void* gate_up, void* to, ElementType type, int64_t rows,
                      int64_t features, cudaStream_t stream) {
  if (rows * features == 0) return;
  with_gate(kind, type, [&](auto element, auto gate) {
    using Element = decltype(element);
    const auto* from = static_cast<const Element*>(gate_up);
    auto* results = static_cast<Element*>(to);
    const auto blocks = static_cast<unsigned>(rows);
    if (has_full_packs<Element>(features, {gate_up, to})) {
      forward<Element, kFullPack<Element>>
          <<<blocks, kThreads, 0, stream>>>(from, results, features, gate);
    } else {
      forward<Element, 1><<<blocks, kThreads, 0, stream>>>(from, results, features, gate);
    }
  });
}

void gated_activation_backward(Gate kind, const void* gradient, const void* gate_up, void* to,
                               ElementType type, int64_t rows, int64_t features,
                               cudaStream_t stream) {
  if (rows * features == 0) return;
  with_gate(kind, type, [&](auto element, auto gate) {
    using Element = decltype(element);
    const auto* of_results = static_cast<const Element*>(gradient);
    const auto* from = static_cast<const Element*>(gate_up);
    auto* results = static_cast<Element*>(to);
    const auto blocks = static_cast<unsigned>(rows);
    if (has_full_packs<Element>(features, {gradient, gate_up, to})) {
      backward<Element, kFullPack<Element>>
          <<<blocks, kThreads, 0, stream>>>(of_results, from, results, features, gate);
    } else {
      backward<Element, 1>
          <<<blocks, kThreads, 0, stream>>>(of_results, from, results, features, gate);
    }
  });
}

}  // namespace colossal::ops::cuda
