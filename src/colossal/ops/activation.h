// Activation functions, plain and gated, with gradients, on any device and on meta. The backward
// pass keeps the input only.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace colossal::ops {

enum class Activation {
  gelu,          // x times the normal distribution's share below x
  gelu_tanh,     // its approximation 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), GPT-2's
  quick_gelu,    // x sigmoid(1.702 x)
  silu,          // x sigmoid(x)
  relu,          // the larger of x and 0
  relu_squared,  // its square
};

// Finds an activation by its name in transformers ("hidden_act" of a config.json); none for an
// unknown name. Names that mean the same up to rounding are one activation.
std::optional<Activation> activation_of(std::string_view name);
std::vector<std::string> activation_names();

at::Tensor activate(const at::Tensor& x, Activation activation);

// activate(gate) * up of gate and up side by side, [.., 2 features] -> [.., features] (N. Shazeer,
// "GLU Variants Improve Transformer", 2020). InternalError: an odd last dim.
at::Tensor activate_gate(const at::Tensor& gate_up, Activation activation);

}  // namespace colossal::ops
