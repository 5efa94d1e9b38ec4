// Implementations of the activations of activation.h that call only LibTorch's operators, for
// devices and activations without kernels of Colossal's own; see aten_fallback.h. Each function has
// the signature of its operator. kind: an Activation.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace colossal::ops::aten_fallback {

// activate() of activation.h.
at::Tensor activation(const at::Tensor& x, int64_t kind);
// Returns the gradient of x. gradient: of the result.
at::Tensor activation_backward(const at::Tensor& gradient, const at::Tensor& x, int64_t kind);

// activate_gate() of activation.h.
at::Tensor gated_activation(const at::Tensor& gate_up, int64_t kind);
// Returns the gradient of gate_up. gradient: of the result.
at::Tensor gated_activation_backward(const at::Tensor& gradient, const at::Tensor& gate_up,
                                     int64_t kind);

}  // namespace colossal::ops::aten_fallback
