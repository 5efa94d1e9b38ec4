// Activation functions, plain and gated. Differentiable, on any device and on meta. The forward
// pass saves only its input for backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace colossal::ops {

enum class Activation {
  gelu,          // x * Phi(x), Phi the cumulative distribution of the standard normal
  gelu_tanh,     // approximation of gelu: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), GPT-2's
  quick_gelu,    // x sigmoid(1.702 x)
  silu,          // x sigmoid(x)
  relu,          // max(x, 0)
  relu_squared,  // max(x, 0)^2
};

// Returns the activation that transformers calls `name` ("hidden_act" of a config.json); nullopt
// for an unknown name. Several names may mean one activation, if their functions are equal up to
// rounding.
std::optional<Activation> activation_of(std::string_view name);
std::vector<std::string> activation_names();  // all that activation_of() knows, sorted

// Applies the activation to each element.
at::Tensor activate(const at::Tensor& x, Activation activation);

// Returns activate(gate) * up, [.., features]. gate_up: gate and up concatenated along the last
// dim, [.., 2 * features] (N. Shazeer, "GLU Variants Improve Transformer", 2020). Throws
// InternalError if the last dim is odd.
at::Tensor activate_gate(const at::Tensor& gate_up, Activation activation);

}  // namespace colossal::ops
