#include "colossal/ops/norm/head_norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "colossal/base/error.h"
#include "colossal/ops/fallback/aten_fallback_norm.h"
#include "colossal/ops/fallback/dispatch.h"
#include "colossal/ops/flat_tensor.h"
#include "colossal/ops/norm/norm_rows.h"

namespace colossal::ops {
namespace {

using aten_fallback::OptionalTensor;
using aten_fallback::ThreeTensors;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Sizes of x, contiguous [tokens, heads, head_size]. The first `normed` heads of each token are
// normalized; each of them is one row.
struct HeadRows {
  int64_t heads, normed, head_size, tokens;

  HeadRows(const at::Tensor& x, const at::Tensor& weight)
      : heads(x.size(-2)),
        normed(weight.size(0)),
        head_size(x.size(-1)),
        tokens(c10::multiply_integers(x.sizes().slice(0, x.dim() - 2))) {}

  int64_t num_rows() const { return tokens * normed; }

  // Copies the heads of a token that are not normalized.
  void copy_others(const RowsAt<const char>& from, const RowsAt<char>& to, int64_t token) const {
    const int64_t begin = token * heads + normed;
    std::copy_n(from[begin], (heads - normed) * from.row_bytes, to[begin]);
  }
};

// The two functions below are for the CPU and for meta, where they only allocate the same tensors.

// Returns {y, mean, inverse}. mean, inverse: [rows]; mean is undefined for RMS norm.
ThreeTensors head_norm(const at::Tensor& given, const at::Tensor& weight,
                       const OptionalTensor& given_bias, bool unit_offset, bool centered,
                       double epsilon) {
  const at::Tensor x = given.contiguous(), bias = contiguous_or_undefined(given_bias);
  const HeadRows sizes(x, weight);
  const at::Tensor y = at::empty_like(x);
  const auto wide = x.options().dtype(at::kDouble);
  const at::Tensor mean = centered ? at::empty({sizes.num_rows()}, wide) : at::Tensor();
  const at::Tensor inverse = at::empty({sizes.num_rows()}, wide);
  if (!x.is_meta()) {
    const auto& kernels = kernels::vector_kernels();
    const auto type = element_type(x.scalar_type());
    const auto x_rows = rows_of(x), weights = rows_of(weight), biases = rows_of(bias);
    const auto y_rows = rows_to_write(y);
    double* const means = centered ? mean.mutable_data_ptr<double>() : nullptr;
    double* const inverses = inverse.mutable_data_ptr<double>();
    const auto count = static_cast<double>(sizes.head_size);
    visit_rows_in_groups(sizes.tokens, [&](int64_t token, int64_t) {
      for (int64_t head = 0; head < sizes.normed; ++head) {
        const int64_t row = token * sizes.normed + head, place = token * sizes.heads + head;
        kernels::NormRow one{.x = x_rows[place],
                             .weight = weights[head],
                             .type = type,
                             .count = sizes.head_size,
                             .unit_offset = unit_offset};
        if (means) {
          one.mean = means[row] = kernels.sum_row(one.x, type, sizes.head_size) / count;
        }
        const double squares = kernels.squared_deviations(one.x, one.mean, type, sizes.head_size);
        one.inverse_deviation = inverses[row] = 1 / std::sqrt(squares / count + epsilon);
        kernels.normalize(one, biases[head], y_rows[place]);
      }
      sizes.copy_others(x_rows, y_rows, token);
    });
  }
  const at::ScalarType kept = compute_type(x.scalar_type());
  return {y, centered ? mean.to(kept) : at::Tensor(), inverse.to(kept)};
}

// Returns the gradients of x, of the weight and, if has_bias, of the bias.
ThreeTensors head_norm_backward(const at::Tensor& given_gradient, const at::Tensor& given,
                                const OptionalTensor& given_mean, const at::Tensor& given_inverse,
                                const at::Tensor& weight, bool unit_offset, bool has_bias) {
  const at::Tensor gradient = given_gradient.contiguous(), x = given.contiguous();
  const at::Tensor mean = double_or_undefined(given_mean), inverse = given_inverse.to(at::kDouble);
  const HeadRows sizes(x, weight);
  const at::Tensor x_gradient = at::empty_like(x);
  const at::Tensor weight_parts = gradient_parts(x, sizes.tokens, weight.numel());
  const at::Tensor bias_parts =
      has_bias ? gradient_parts(x, sizes.tokens, weight.numel()) : at::Tensor();
  if (!x.is_meta()) {
    const auto& kernels = kernels::vector_kernels();
    const auto x_rows = rows_of(x), weights = rows_of(weight), gradients = rows_of(gradient);
    const auto weight_sums = rows_to_write(weight_parts), bias_sums = rows_to_write(bias_parts);
    const auto to = rows_to_write(x_gradient);
    const double* const means = mean.defined() ? mean.const_data_ptr<double>() : nullptr;
    const double* const inverses = inverse.const_data_ptr<double>();
    const int64_t sum_bytes = sizes.head_size * weight_parts.element_size();
    const auto sums_of = [&](const RowsAt<char>& sums, int64_t group, int64_t head) {
      return sums.data ? sums[group] + head * sum_bytes : nullptr;
    };
    const kernels::NormRow shape{.type = element_type(x.scalar_type()),
                                 .count = sizes.head_size,
                                 .unit_offset = unit_offset};
    const auto count = static_cast<double>(sizes.head_size);
    visit_rows_in_groups(sizes.tokens, [&](int64_t token, int64_t group) {
      for (int64_t head = 0; head < sizes.normed; ++head) {
        const int64_t row = token * sizes.normed + head, place = token * sizes.heads + head;
        kernels::NormRow one = shape;
        one.x = x_rows[place];
        one.weight = weights[head];
        one.mean = means ? means[row] : 0;
        one.inverse_deviation = inverses[row];
        kernels::NormGradientSums sums =
            kernels.norm_gradient_sums(one, gradients[place], sums_of(weight_sums, group, head),
                                       sums_of(bias_sums, group, head));
        sums.product /= count;
        sums.weighted = means ? sums.weighted / count : 0;
        kernels.norm_input_gradient(one, gradients[place], sums, nullptr, to[place]);
      }
      sizes.copy_others(gradients, to, token);
    });
  }
  const auto sum = [&](const at::Tensor& parts) {
    return sum_of_parts(parts, x.scalar_type()).view(weight.sizes());
  };
  return {x_gradient, sum(weight_parts), has_bias ? sum(bias_parts) : at::Tensor()};
}

TORCH_LIBRARY_FRAGMENT(colossal, m) {
  m.def(
      "head_norm(Tensor x, Tensor weight, Tensor? bias, bool unit_offset, bool centered, float "
      "epsilon) -> (Tensor y, Tensor mean, Tensor inverse)");
  m.def(
      "head_norm_backward(Tensor gradient, Tensor x, Tensor? mean, Tensor inverse, Tensor weight, "
      "bool unit_offset, bool has_bias) -> (Tensor x_gradient, Tensor weight_gradient, Tensor "
      "bias_gradient)");
}
TORCH_LIBRARY_IMPL(colossal, CPU, m) {
  m.impl("head_norm", head_norm);
  m.impl("head_norm_backward", head_norm_backward);
}
TORCH_LIBRARY_IMPL(colossal, Meta, m) {
  m.impl("head_norm", head_norm);
  m.impl("head_norm_backward", head_norm_backward);
}
TORCH_LIBRARY_IMPL(colossal, CompositeExplicitAutograd, m) {
  m.impl("head_norm", aten_fallback::head_norm);
  m.impl("head_norm_backward", aten_fallback::head_norm_backward);
}

// bias: an optional, because autograd functions accept undefined tensors only in optionals.
struct HeadNorm : torch::autograd::Function<HeadNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const OptionalTensor& bias, bool unit_offset, bool centered,
                            double epsilon) {
    static const auto op = find_operator<decltype(head_norm)>("colossal::head_norm");
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    auto [y, mean, inverse] = op.call(x, weight, bias, unit_offset, centered, epsilon);
    context->save_for_backward({x, weight, mean, inverse});
    context->saved_data["unit_offset"] = unit_offset;
    context->saved_data["has_bias"] = bias->defined();
    return y;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    static const auto op =
        find_operator<decltype(head_norm_backward)>("colossal::head_norm_backward");
    const variable_list saved = context->get_saved_variables();
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    auto [x_gradient, weight_gradient, bias_gradient] = op.call(
        gradients[0], saved[0], saved[2], saved[3], saved[1],
        context->saved_data["unit_offset"].toBool(), context->saved_data["has_bias"].toBool());
    return {x_gradient, weight_gradient, bias_gradient, {}, {}, {}};
  }
};

}  // namespace

at::Tensor norm_heads(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      bool unit_offset, bool centered, double epsilon) {
  COLOSSAL_CHECK(x.dim() >= 2 && weight.dim() == 2 && weight.size(0) <= x.size(-2) &&
                     weight.size(1) == x.size(-1) && weight.scalar_type() == x.scalar_type() &&
                     (!bias.defined() ||
                      (bias.sizes() == weight.sizes() && bias.scalar_type() == x.scalar_type())),
                 "norms of heads {} {} with a weight {} {}", c10::toString(x.scalar_type()),
                 shape_text(x), c10::toString(weight.scalar_type()), shape_text(weight));
  return HeadNorm::apply(x, weight.contiguous(),
                         OptionalTensor(bias.defined() ? bias.contiguous() : bias), unit_offset,
                         centered, epsilon);
}

}  // namespace colossal::ops
