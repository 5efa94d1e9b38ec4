#include "colossal/ops/rms_norm.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <tuple>

#include "colossal/base/error.h"
#include "colossal/ops/cheap_result.h"
#include "colossal/ops/dispatch.h"
#include "colossal/ops/flat_tensor.h"

namespace colossal::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Rows whose shares of the weight's gradient are summed one after the other: the same bits for any
// number of threads.
constexpr int64_t kRowsTogether = 64;

int64_t rows_of(const at::Tensor& x) {
  return x.size(-1) == 0 ? 0 : x.numel() / x.size(-1);
}

at::Tensor empty_inverse_rms(const at::Tensor& x, at::ScalarType type) {
  return at::empty({rows_of(x)}, x.options().dtype(type));
}

// The weight's gradient of each group of rows.
at::Tensor zero_sums(const at::Tensor& x, const at::Tensor& inverse_rms) {
  return at::zeros({(rows_of(x) + kRowsTogether - 1) / kRowsTogether, x.size(-1)},
                   inverse_rms.options());
}

template <typename Visit>
void visit_row_groups(int64_t rows, const Visit& visit) {
  at::parallel_for(
      0, (rows + kRowsTogether - 1) / kRowsTogether, 1, [&](int64_t begin, int64_t end) {
        for (int64_t group = begin; group < end; ++group) {
          visit(group, group * kRowsTogether, std::min(rows, (group + 1) * kRowsTogether));
        }
      });
}

std::tuple<at::Tensor, at::Tensor> rms_norm_cpu(const at::Tensor& given, const at::Tensor& weight,
                                                double epsilon) {
  const at::Tensor x = given.contiguous();
  at::Tensor y = at::empty_like(x);
  at::Tensor inverse_rms = empty_inverse_rms(x, at::kDouble);
  const auto type = element_type(x.scalar_type());
  const int64_t row_bytes = x.size(-1) * x.element_size();
  const auto* from = static_cast<const char*>(x.const_data_ptr());
  auto* to = static_cast<char*>(y.mutable_data_ptr());
  auto* inverse = inverse_rms.mutable_data_ptr<double>();
  visit_row_groups(rows_of(x), [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      inverse[row] =
          kernels::vector_kernels().rms_norm(from + row * row_bytes, weight.const_data_ptr(),
                                             to + row * row_bytes, type, x.size(-1), epsilon);
    }
  });
  return {y, inverse_rms.to(compute_type(x.scalar_type()))};
}

std::tuple<at::Tensor, at::Tensor> rms_norm_backward_cpu(const at::Tensor& given_gradient,
                                                         const at::Tensor& given,
                                                         const at::Tensor& weight,
                                                         const at::Tensor& inverse_rms) {
  const at::Tensor gradient = given_gradient.contiguous(), x = given.contiguous();
  at::Tensor x_gradient = at::empty_like(x);
  const int64_t rows = rows_of(x), features = x.size(-1);
  const at::Tensor sums = zero_sums(x, inverse_rms);
  const at::Tensor inverse = inverse_rms.to(at::kDouble);
  const auto type = element_type(x.scalar_type());
  const int64_t row_bytes = features * x.element_size();
  visit_row_groups(rows, [&](int64_t group, int64_t begin, int64_t end) {
    auto* const sum =
        static_cast<char*>(sums.mutable_data_ptr()) + group * features * sums.element_size();
    for (int64_t row = begin; row < end; ++row) {
      kernels::vector_kernels().rms_norm_backward(
          static_cast<const char*>(gradient.const_data_ptr()) + row * row_bytes,
          static_cast<const char*>(x.const_data_ptr()) + row * row_bytes, weight.const_data_ptr(),
          inverse.const_data_ptr<double>()[row],
          static_cast<char*>(x_gradient.mutable_data_ptr()) + row * row_bytes, type, features, sum);
    }
  });
  return {x_gradient, sums.sum(0).to(weight.scalar_type())};
}

std::tuple<at::Tensor, at::Tensor> rms_norm_any(const at::Tensor& given, const at::Tensor& weight,
                                                double epsilon) {
  const at::Tensor x = given.to(compute_type(given.scalar_type()));
  const at::Tensor inverse_rms = (x.square().mean(-1, true) + epsilon).rsqrt();
  return {(x * inverse_rms * weight).to(given.scalar_type()).contiguous(), inverse_rms.flatten()};
}

std::tuple<at::Tensor, at::Tensor> rms_norm_backward_any(const at::Tensor& given_gradient,
                                                         const at::Tensor& given,
                                                         const at::Tensor& weight,
                                                         const at::Tensor& inverse_rms) {
  const at::ScalarType wide = compute_type(given.scalar_type());
  const at::Tensor gradient = given_gradient.to(wide);
  const at::Tensor inverse =
      inverse_rms.view(given.sizes().slice(0, given.dim() - 1)).unsqueeze(-1);
  const at::Tensor normal = given.to(wide) * inverse;
  const at::Tensor weighted = gradient * weight;
  const at::Tensor x_gradient = (weighted - normal * (weighted * normal).mean(-1, true)) * inverse;
  return {x_gradient.to(given.scalar_type()).contiguous(),
          (gradient * normal).flatten(0, -2).sum(0).to(weight.scalar_type())};
}

// On meta, what the CPU allocates.
std::tuple<at::Tensor, at::Tensor> rms_norm_meta(const at::Tensor& given, const at::Tensor&,
                                                 double) {
  const at::Tensor x = given.contiguous();
  const at::Tensor y = at::empty_like(x);
  return {y, empty_inverse_rms(x, at::kDouble).to(compute_type(x.scalar_type()))};
}

std::tuple<at::Tensor, at::Tensor> rms_norm_backward_meta(const at::Tensor& given_gradient,
                                                          const at::Tensor& given,
                                                          const at::Tensor& weight,
                                                          const at::Tensor& inverse_rms) {
  const at::Tensor gradient = given_gradient.contiguous(), x = given.contiguous();
  const at::Tensor x_gradient = at::empty_like(x);
  const at::Tensor sums = zero_sums(x, inverse_rms);
  const at::Tensor inverse = inverse_rms.to(at::kDouble);
  return {x_gradient, sums.sum(0).to(weight.scalar_type())};
}

TORCH_LIBRARY_FRAGMENT(colossal, m) {
  m.def("rms_norm(Tensor x, Tensor weight, float epsilon) -> (Tensor y, Tensor inverse_rms)");
  m.def(
      "rms_norm_backward(Tensor gradient, Tensor x, Tensor weight, Tensor inverse_rms) "
      "-> (Tensor x_gradient, Tensor weight_gradient)");
}
TORCH_LIBRARY_IMPL(colossal, CPU, m) {
  m.impl("rms_norm", rms_norm_cpu);
  m.impl("rms_norm_backward", rms_norm_backward_cpu);
}
TORCH_LIBRARY_IMPL(colossal, CompositeExplicitAutograd, m) {
  m.impl("rms_norm", rms_norm_any);
  m.impl("rms_norm_backward", rms_norm_backward_any);
}
TORCH_LIBRARY_IMPL(colossal, Meta, m) {
  m.impl("rms_norm", rms_norm_meta);
  m.impl("rms_norm_backward", rms_norm_backward_meta);
}

struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            double epsilon) {
    static const auto op = find_operator<decltype(rms_norm_cpu)>("colossal::rms_norm");
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    auto [y, inverse_rms] = op.call(x, weight, epsilon);
    context->save_for_backward({x, weight, inverse_rms});
    tell_cheap_result(y, {x, weight}, [epsilon](const std::vector<at::Tensor>& inputs) {
      return std::get<0>(op.call(inputs[0], inputs[1], epsilon));
    });
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    static const auto op =
        find_operator<decltype(rms_norm_backward_cpu)>("colossal::rms_norm_backward");
    const variable_list saved = context->get_saved_variables();
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    auto [x_gradient, weight_gradient] = op.call(gradients[0], saved[0], saved[1], saved[2]);
    return {x_gradient, weight_gradient, {}};
  }
};

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  COLOSSAL_CHECK(x.dim() > 0 && weight.dim() == 1 && weight.size(0) == x.size(-1) &&
                     weight.scalar_type() == x.scalar_type(),
                 "x {}, weight {}", shape_text(x), shape_text(weight));
  return RmsNorm::apply(x, weight, epsilon);
}

}  // namespace colossal::ops
