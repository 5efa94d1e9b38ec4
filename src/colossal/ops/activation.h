// Activation functions of transformer MLPs, plain and gated. They are differentiable and run on any
// device and on meta. The forward pass saves only its input for the backward pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace colossal::ops {

enum class Activation {
  gelu,          // x * Phi(x), where Phi is the cumulative distribution of the standard normal
  gelu_tanh,     // 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))): GPT-2's approximation of gelu
  quick_gelu,    // x * sigmoid(1.702 x)
  silu,          // x * sigmoid(x)
  relu,          // max(x, 0)
  relu_squared,  // max(x, 0)^2
  tanh,          // the hyperbolic tangent
};

// Returns the activation that Hugging Face transformers calls `name` ("hidden_act" of a
// config.json), or nullopt for an unknown name. Names whose functions are equal up to rounding,
// such as "gelu_new" and "gelu_fast", give one activation.
std::optional<Activation> activation_of(std::string_view name);
// Returns all names that activation_of() knows, sorted.
std::vector<std::string> activation_names();

// Returns the activation of each element, in x's shape and type.
at::Tensor activate(const at::Tensor& x, Activation activation);

// Returns activate(gate, activation) * up, [.., features], in the type of gate_up (N. Shazeer, "GLU
// Variants Improve Transformer", 2020). gate_up: [.., 2 * features], gate and up concatenated along
// the last dim. Throws InternalError if the size of the last dim is odd.
at::Tensor activate_gate(const at::Tensor& gate_up, Activation activation);

}  // namespace colossal::ops
