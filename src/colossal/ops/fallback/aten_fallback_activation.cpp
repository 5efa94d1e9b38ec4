#include "colossal/ops/fallback/aten_fallback_activation.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tanh_backward.h>
#include <ATen/ops/threshold_backward.h>

#include "colossal/ops/activation.h"

namespace colossal::ops::aten_fallback {
namespace {

constexpr double kQuickGelu = 1.702;

at::Tensor activated(const at::Tensor& x, Activation kind) {
  switch (kind) {
    case Activation::gelu:
      return at::gelu(x);
    case Activation::gelu_tanh:
      return at::gelu(x, "tanh");
    case Activation::quick_gelu:
      return at::sigmoid(x * kQuickGelu).mul_(x);
    case Activation::silu:
      return at::silu(x);
    case Activation::relu:
      return at::clamp_min(x, 0);
    case Activation::relu_squared:
      return at::clamp_min(x, 0).square_();
    case Activation::tanh:
      return at::tanh(x);
  }
  return {};
}

at::Tensor gradient_of(const at::Tensor& gradient, const at::Tensor& x, Activation kind) {
  switch (kind) {
    case Activation::gelu:
      return at::gelu_backward(gradient, x);
    case Activation::gelu_tanh:
      return at::gelu_backward(gradient, x, "tanh");
    case Activation::quick_gelu: {
      const at::Tensor gate = at::sigmoid(x * kQuickGelu);
      return gradient * (gate + gate * (1 - gate) * x * kQuickGelu);
    }
    case Activation::silu:
      return at::silu_backward(gradient, x);
    case Activation::relu:
      return at::threshold_backward(gradient, x, 0);
    case Activation::relu_squared:
      return at::clamp_min(x, 0).mul_(gradient).mul_(2);
    case Activation::tanh:
      return at::tanh_backward(gradient, at::tanh(x));
  }
  return {};
}

}  // namespace

at::Tensor activation(const at::Tensor& x, int64_t kind) {
  return activated(x, static_cast<Activation>(kind)).contiguous();
}

at::Tensor activation_backward(const at::Tensor& gradient, const at::Tensor& x, int64_t kind) {
  return gradient_of(gradient, x, static_cast<Activation>(kind)).contiguous();
}

at::Tensor gated_activation(const at::Tensor& gate_up, int64_t kind) {
  const auto parts = gate_up.chunk(2, -1);
  return (activated(parts[0], static_cast<Activation>(kind)) * parts[1]).contiguous();
}

at::Tensor gated_activation_backward(const at::Tensor& gradient, const at::Tensor& gate_up,
                                     int64_t kind) {
  const auto activation = static_cast<Activation>(kind);
  const auto parts = gate_up.chunk(2, -1);
  return at::cat({gradient_of(gradient * parts[1], parts[0], activation),
                  gradient * activated(parts[0], activation)},
                 -1);
}

}  // namespace colossal::ops::aten_fallback
