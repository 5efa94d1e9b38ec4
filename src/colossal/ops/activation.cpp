#include "colossal/ops/activation.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <map>

#include "colossal/base/error.h"
#include "colossal/ops/fallback/aten_fallback_activation.h"
#include "colossal/ops/fallback/dispatch.h"
#include "colossal/ops/flat_tensor.h"
#include "colossal/ops/parallel_for.h"
#include "colossal/ops/recomputable_result.h"

namespace colossal::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const std::map<std::string, Activation, std::less<>>& known_names() {
  // gelu_fast differs from gelu_new only in that it rounds sqrt(2/pi) to ten digits.
  static const std::map<std::string, Activation, std::less<>> kNames{
      {"gelu", Activation::gelu},
      {"gelu_python", Activation::gelu},
      {"gelu_new", Activation::gelu_tanh},
      {"gelu_pytorch_tanh", Activation::gelu_tanh},
      {"gelu_python_tanh", Activation::gelu_tanh},
      {"gelu_accurate", Activation::gelu_tanh},
      {"gelu_fast", Activation::gelu_tanh},
      {"quick_gelu", Activation::quick_gelu},
      {"silu", Activation::silu},
      {"swish", Activation::silu},
      {"relu", Activation::relu},
      {"relu2", Activation::relu_squared},
      {"tanh", Activation::tanh}};
  return kNames;
}

// Implementations for the CPU and for meta, which allocates the same tensors. LibTorch's tanh GELU
// takes several times as long as reading and writing the memory; our kernel does not.

at::Tensor activation(const at::Tensor& given, int64_t code) {
  const auto kind = static_cast<Activation>(code);
  const at::Tensor x = given.contiguous();
  if (kind != Activation::gelu_tanh) return aten_fallback::activation(x, code);
  at::Tensor y = at::empty_like(x);
  if (x.is_meta()) return y;
  const auto type = element_type(x.scalar_type());
  const auto* from = static_cast<const char*>(x.const_data_ptr());
  auto* to = static_cast<char*>(y.mutable_data_ptr());
  parallel_for(0, x.numel(), kElementsPerThread, [&](int64_t begin, int64_t end) {
    const int64_t offset = begin * x.element_size();
    kernels::vector_kernels().gelu_new(from + offset, to + offset, type, end - begin);
  });
  return y;
}

at::Tensor activation_backward(const at::Tensor& given_gradient, const at::Tensor& given,
                               int64_t code) {
  const auto kind = static_cast<Activation>(code);
  const at::Tensor gradient = given_gradient.contiguous(), x = given.contiguous();
  if (kind != Activation::gelu_tanh) return aten_fallback::activation_backward(gradient, x, code);
  at::Tensor result = at::empty_like(x);
  if (x.is_meta()) return result;
  const auto type = element_type(x.scalar_type());
  const auto* gradient_data = static_cast<const char*>(gradient.const_data_ptr());
  const auto* x_data = static_cast<const char*>(x.const_data_ptr());
  auto* to = static_cast<char*>(result.mutable_data_ptr());
  parallel_for(0, x.numel(), kElementsPerThread, [&](int64_t begin, int64_t end) {
    const int64_t offset = begin * x.element_size();
    kernels::vector_kernels().gelu_new_backward(gradient_data + offset, x_data + offset,
                                                to + offset, type, end - begin);
  });
  return result;
}

std::vector<int64_t> halved(const at::Tensor& x) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() /= 2;
  return sizes;
}

// Calls visit(row) for each row of gate_up, from several threads.
template <typename Visit>
void visit_rows(const at::Tensor& gate_up, const Visit& visit) {
  const int64_t width = gate_up.size(-1);
  const int64_t rows = width == 0 ? 0 : gate_up.numel() / width;
  parallel_for(0, rows, std::max<int64_t>(1, kElementsPerThread / std::max<int64_t>(1, width)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) visit(row);
               });
}

bool has_gated_kernel(Activation kind) {
  return kind == Activation::silu || kind == Activation::gelu_tanh;
}

at::Tensor gated_activation(const at::Tensor& given, int64_t code) {
  const auto kind = static_cast<Activation>(code);
  const at::Tensor x = given.contiguous();
  if (!has_gated_kernel(kind)) return aten_fallback::gated_activation(x, code);
  at::Tensor y = at::empty(halved(x), x.options());
  if (x.is_meta()) return y;
  const auto& kernels = kernels::vector_kernels();
  const auto kernel = kind == Activation::silu ? kernels.swiglu : kernels.geglu;
  const auto type = element_type(x.scalar_type());
  const int64_t features = y.size(-1), bytes = features * x.element_size();
  const auto* from = static_cast<const char*>(x.const_data_ptr());
  auto* to = static_cast<char*>(y.mutable_data_ptr());
  visit_rows(x, [&](int64_t row) {
    const char* const gate = from + 2 * row * bytes;
    kernel(gate, gate + bytes, to + row * bytes, type, features);
  });
  return y;
}

at::Tensor gated_activation_backward(const at::Tensor& given_gradient, const at::Tensor& given,
                                     int64_t code) {
  const auto kind = static_cast<Activation>(code);
  const at::Tensor gradient = given_gradient.contiguous(), x = given.contiguous();
  if (!has_gated_kernel(kind)) return aten_fallback::gated_activation_backward(gradient, x, code);
  at::Tensor result = at::empty_like(x);
  if (x.is_meta()) return result;
  const auto& kernels = kernels::vector_kernels();
  const auto kernel = kind == Activation::silu ? kernels.swiglu_backward : kernels.geglu_backward;
  const auto type = element_type(x.scalar_type());
  const int64_t features = gradient.size(-1), bytes = features * x.element_size();
  const auto* gradient_data = static_cast<const char*>(gradient.const_data_ptr());
  const auto* from = static_cast<const char*>(x.const_data_ptr());
  auto* to = static_cast<char*>(result.mutable_data_ptr());
  visit_rows(x, [&](int64_t row) {
    const char* const gate = from + 2 * row * bytes;
    char* const gate_gradient = to + 2 * row * bytes;
    kernel(gradient_data + row * bytes, gate, gate + bytes, gate_gradient, gate_gradient + bytes,
           type, features);
  });
  return result;
}

TORCH_LIBRARY_FRAGMENT(colossal, m) {
  m.def("activation(Tensor x, int kind) -> Tensor");
  m.def("activation_backward(Tensor gradient, Tensor x, int kind) -> Tensor");
  m.def("gated_activation(Tensor gate_up, int kind) -> Tensor");
  m.def("gated_activation_backward(Tensor gradient, Tensor gate_up, int kind) -> Tensor");
}

void implement_activations(torch::Library& m) {
  m.impl("activation", activation);
  m.impl("activation_backward", activation_backward);
  m.impl("gated_activation", gated_activation);
  m.impl("gated_activation_backward", gated_activation_backward);
}
TORCH_LIBRARY_IMPL(colossal, CPU, m) {
  implement_activations(m);
}
TORCH_LIBRARY_IMPL(colossal, Meta, m) {
  implement_activations(m);
}
TORCH_LIBRARY_IMPL(colossal, CompositeExplicitAutograd, m) {
  m.impl("activation", aten_fallback::activation);
  m.impl("activation_backward", aten_fallback::activation_backward);
  m.impl("gated_activation", aten_fallback::gated_activation);
  m.impl("gated_activation_backward", aten_fallback::gated_activation_backward);
}

// Autograd function of an operator of one tensor whose gradient needs only that tensor. name,
// backward_name: the dispatcher's names of the operator and of its gradient.
template <const char* name, const char* backward_name>
struct OfOneTensor : torch::autograd::Function<OfOneTensor<name, backward_name>> {
  static at::Tensor of(const at::Tensor& x, Activation kind) {
    static const auto op = find_operator<decltype(activation)>(name);
    const auto number = static_cast<int64_t>(kind);
    return at::GradMode::is_enabled() ? OfOneTensor::apply(x, number) : op.call(x, number);
  }

  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, int64_t kind) {
    static const auto op = find_operator<decltype(activation)>(name);
    context->save_for_backward({x});
    context->saved_data["kind"] = kind;
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::Tensor y = op.call(x, kind);
    announce_recomputable_result(
        y, {x}, [kind](const std::vector<at::Tensor>& inputs) { return op.call(inputs[0], kind); });
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    static const auto op = find_operator<decltype(activation_backward)>(backward_name);
    const at::Tensor x = context->get_saved_variables()[0];
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    return {op.call(gradients[0], x, context->saved_data["kind"].toInt()), {}};
  }
};

constexpr char kActivation[] = "colossal::activation";
constexpr char kActivationBackward[] = "colossal::activation_backward";
constexpr char kGated[] = "colossal::gated_activation";
constexpr char kGatedBackward[] = "colossal::gated_activation_backward";

}  // namespace

std::optional<Activation> activation_of(std::string_view name) {
  const auto found = known_names().find(name);
  return found == known_names().end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> activation_names() {
  std::vector<std::string> all;
  for (const auto& [name, activation] : known_names()) all.push_back(name);
  return all;
}

at::Tensor activate(const at::Tensor& x, Activation activation) {
  return OfOneTensor<kActivation, kActivationBackward>::of(x, activation);
}

at::Tensor activate_gate(const at::Tensor& gate_up, Activation activation) {
  COLOSSAL_CHECK(gate_up.dim() > 0 && gate_up.size(-1) % 2 == 0, "gate and up of {}",
                 shape_text(gate_up));
  return OfOneTensor<kGated, kGatedBackward>::of(gate_up, activation);
}

}  // namespace colossal::ops
