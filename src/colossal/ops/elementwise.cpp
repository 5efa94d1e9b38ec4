#include "colossal/ops/elementwise.h"

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "colossal/base/error.h"
#include "colossal/ops/cheap_result.h"
#include "colossal/ops/dispatch.h"
#include "colossal/ops/flat_tensor.h"

namespace colossal::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// LibTorch's GELU takes several times as long as reading and writing memory does; this does not.
at::Tensor gelu_new_cpu(const at::Tensor& given) {
  const at::Tensor x = given.contiguous();
  at::Tensor y = at::empty_like(x);
  const auto type = element_type(x.scalar_type());
  const auto* from = static_cast<const char*>(x.const_data_ptr());
  auto* to = static_cast<char*>(y.mutable_data_ptr());
  at::parallel_for(0, x.numel(), kElementsPerThread, [&](int64_t begin, int64_t end) {
    const int64_t offset = begin * x.element_size();
    kernels::vector_kernels().gelu_new(from + offset, to + offset, type, end - begin);
  });
  return y;
}

at::Tensor gelu_new_backward_cpu(const at::Tensor& given_gradient, const at::Tensor& given) {
  const at::Tensor gradient = given_gradient.contiguous(), x = given.contiguous();
  at::Tensor result = at::empty_like(x);
  const auto type = element_type(x.scalar_type());
  const auto* gradient_data = static_cast<const char*>(gradient.const_data_ptr());
  const auto* x_data = static_cast<const char*>(x.const_data_ptr());
  auto* to = static_cast<char*>(result.mutable_data_ptr());
  at::parallel_for(0, x.numel(), kElementsPerThread, [&](int64_t begin, int64_t end) {
    const int64_t offset = begin * x.element_size();
    kernels::vector_kernels().gelu_new_backward(gradient_data + offset, x_data + offset,
                                                to + offset, type, end - begin);
  });
  return result;
}

at::Tensor gelu_new_any(const at::Tensor& x) {
  return at::gelu(x, "tanh").contiguous();
}

at::Tensor gelu_new_backward_any(const at::Tensor& gradient, const at::Tensor& x) {
  return at::gelu_backward(gradient, x, "tanh").contiguous();
}

// On meta, what the CPU allocates.
at::Tensor gelu_new_meta(const at::Tensor& given) {
  const at::Tensor x = given.contiguous();
  return at::empty_like(x);
}

at::Tensor gelu_new_backward_meta(const at::Tensor& given_gradient, const at::Tensor& given) {
  const at::Tensor gradient = given_gradient.contiguous(), x = given.contiguous();
  return at::empty_like(x);
}

std::vector<int64_t> halved(const at::Tensor& x) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() /= 2;
  return sizes;
}

// Rows of gate and up, one after the other: those of a rank, whatever its share of them is.
template <typename Visit>
void visit_rows(const at::Tensor& gate_up, const Visit& visit) {
  const int64_t width = gate_up.size(-1);
  const int64_t rows = width == 0 ? 0 : gate_up.numel() / width;
  at::parallel_for(0, rows, std::max<int64_t>(1, kElementsPerThread / std::max<int64_t>(1, width)),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t row = begin; row < end; ++row) visit(row);
                   });
}

at::Tensor swiglu_cpu(const at::Tensor& given) {
  const at::Tensor x = given.contiguous();
  at::Tensor y = at::empty(halved(x), x.options());
  const auto type = element_type(x.scalar_type());
  const int64_t features = y.size(-1), bytes = features * x.element_size();
  const auto* from = static_cast<const char*>(x.const_data_ptr());
  auto* to = static_cast<char*>(y.mutable_data_ptr());
  visit_rows(x, [&](int64_t row) {
    const char* const gate = from + 2 * row * bytes;
    kernels::vector_kernels().swiglu(gate, gate + bytes, to + row * bytes, type, features);
  });
  return y;
}

at::Tensor swiglu_backward_cpu(const at::Tensor& given_gradient, const at::Tensor& given) {
  const at::Tensor gradient = given_gradient.contiguous(), x = given.contiguous();
  at::Tensor result = at::empty_like(x);
  const auto type = element_type(x.scalar_type());
  const int64_t features = gradient.size(-1), bytes = features * x.element_size();
  const auto* gradient_data = static_cast<const char*>(gradient.const_data_ptr());
  const auto* from = static_cast<const char*>(x.const_data_ptr());
  auto* to = static_cast<char*>(result.mutable_data_ptr());
  visit_rows(x, [&](int64_t row) {
    const char* const gate = from + 2 * row * bytes;
    char* const gate_gradient = to + 2 * row * bytes;
    kernels::vector_kernels().swiglu_backward(gradient_data + row * bytes, gate, gate + bytes,
                                              gate_gradient, gate_gradient + bytes, type, features);
  });
  return result;
}

at::Tensor swiglu_any(const at::Tensor& x) {
  const auto parts = x.chunk(2, -1);
  return (at::silu(parts[0]) * parts[1]).contiguous();
}

at::Tensor swiglu_backward_any(const at::Tensor& gradient, const at::Tensor& x) {
  const auto parts = x.chunk(2, -1);
  return at::cat({at::silu_backward(gradient * parts[1], parts[0]), gradient * at::silu(parts[0])},
                 -1);
}

at::Tensor swiglu_meta(const at::Tensor& given) {
  const at::Tensor x = given.contiguous();
  return at::empty(halved(x), x.options());
}

at::Tensor swiglu_backward_meta(const at::Tensor& given_gradient, const at::Tensor& given) {
  const at::Tensor gradient = given_gradient.contiguous(), x = given.contiguous();
  return at::empty_like(x);
}

TORCH_LIBRARY_FRAGMENT(colossal, m) {
  m.def("swiglu(Tensor gate_up) -> Tensor");
  m.def("swiglu_backward(Tensor gradient, Tensor gate_up) -> Tensor");
  m.def("gelu_new(Tensor x) -> Tensor");
  m.def("gelu_new_backward(Tensor gradient, Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(colossal, CPU, m) {
  m.impl("gelu_new", gelu_new_cpu);
  m.impl("gelu_new_backward", gelu_new_backward_cpu);
  m.impl("swiglu", swiglu_cpu);
  m.impl("swiglu_backward", swiglu_backward_cpu);
}
TORCH_LIBRARY_IMPL(colossal, CompositeExplicitAutograd, m) {
  m.impl("gelu_new", gelu_new_any);
  m.impl("gelu_new_backward", gelu_new_backward_any);
  m.impl("swiglu", swiglu_any);
  m.impl("swiglu_backward", swiglu_backward_any);
}
TORCH_LIBRARY_IMPL(colossal, Meta, m) {
  m.impl("gelu_new", gelu_new_meta);
  m.impl("gelu_new_backward", gelu_new_backward_meta);
  m.impl("swiglu", swiglu_meta);
  m.impl("swiglu_backward", swiglu_backward_meta);
}

// A function of one tensor whose gradient needs that tensor only, by the names of both operators.
template <const char* name, const char* backward_name>
struct OfOneTensor : torch::autograd::Function<OfOneTensor<name, backward_name>> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    static const auto op = find_operator<at::Tensor(const at::Tensor&)>(name);
    context->save_for_backward({x});
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const at::Tensor y = op.call(x);
    tell_cheap_result(y, {x},
                      [](const std::vector<at::Tensor>& inputs) { return op.call(inputs[0]); });
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    static const auto op =
        find_operator<at::Tensor(const at::Tensor&, const at::Tensor&)>(backward_name);
    const at::Tensor x = context->get_saved_variables()[0];
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    return {op.call(gradients[0], x)};
  }
};

constexpr char kGeluNew[] = "colossal::gelu_new";
constexpr char kGeluNewBackward[] = "colossal::gelu_new_backward";
constexpr char kSwiglu[] = "colossal::swiglu";
constexpr char kSwigluBackward[] = "colossal::swiglu_backward";
using GeluNew = OfOneTensor<kGeluNew, kGeluNewBackward>;
using Swiglu = OfOneTensor<kSwiglu, kSwigluBackward>;

}  // namespace

at::Tensor swiglu(const at::Tensor& gate_up) {
  COLOSSAL_CHECK(gate_up.dim() > 0 && gate_up.size(-1) % 2 == 0, "gate and up of {}",
                 shape_text(gate_up));
  return Swiglu::apply(gate_up);
}

at::Tensor gelu_new(const at::Tensor& x) {
  return GeluNew::apply(x);
}

}  // namespace colossal::ops
