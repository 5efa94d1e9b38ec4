// Elementwise functions, with gradients, on any device and on meta.
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// GELU by the tanh approximation, GPT-2's: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
at::Tensor gelu_new(const at::Tensor& x);

// silu(gate) * up of gate and up side by side, [.., 2 features] -> [.., features] (N. Shazeer, "GLU
// Variants Improve Transformer", 2020).
at::Tensor swiglu(const at::Tensor& gate_up);

}  // namespace colossal::ops
