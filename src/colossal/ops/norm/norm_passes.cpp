#include "colossal/ops/norm/norm_passes.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <cmath>
#include <optional>
#include <tuple>

#include "colossal/ops/fallback/aten_fallback_norm.h"
#include "colossal/ops/fallback/dispatch.h"
#include "colossal/ops/flat_tensor.h"
#include "colossal/ops/norm/norm_rows.h"

namespace colossal::ops {
namespace {

using aten_fallback::FourTensors;
using aten_fallback::OptionalTensor;
using aten_fallback::ThreeTensors;
using aten_fallback::TwoTensors;

int64_t num_rows(const at::Tensor& x) {
  return c10::multiply_integers(x.sizes().slice(0, x.dim() - 1));
}

template <typename Visit>
void visit_rows_of(const at::Tensor& x, const Visit& visit) {
  visit_rows_in_groups(num_rows(x), visit);
}

at::Tensor gradient_parts(const at::Tensor& x) {
  return ops::gradient_parts(x, num_rows(x), x.size(-1));
}

// Returns a parameter's gradient from its parts; undefined if the parts are undefined.
at::Tensor sum_or_none(const at::Tensor& parts, at::ScalarType type) {
  return parts.defined() ? sum_of_parts(parts, type) : at::Tensor();
}

bool there(const OptionalTensor& given) {
  return given && given->defined();
}

const void* data_or_null(const OptionalTensor& given) {
  return there(given) ? given->const_data_ptr() : nullptr;
}

// Writes `value` to numbers[index], rounded to the type of `numbers`.
void put_rounded(const at::Tensor& numbers, int64_t index, double value) {
  switch (numbers.scalar_type()) {
    case at::kDouble:
      numbers.mutable_data_ptr<double>()[index] = value;
      return;
    case at::kFloat:
      numbers.mutable_data_ptr<float>()[index] = static_cast<float>(value);
      return;
    default:
      numbers.mutable_data_ptr<at::BFloat16>()[index] = static_cast<float>(value);
  }
}

// The rows of x with their statistics, as arguments of the kernels.
class NormRows {
 public:
  NormRows(const at::Tensor& x, const OptionalTensor& weight, bool unit_offset,
           const at::Tensor& mean, const at::Tensor& inverse)
      : x_(rows_of(x)),
        row_{.weight = data_or_null(weight),
             .type = element_type(x.scalar_type()),
             .count = x.size(-1),
             .unit_offset = unit_offset},
        mean_(mean.defined() ? mean.const_data_ptr<double>() : nullptr),
        inverse_(inverse.const_data_ptr<double>()) {}

  kernels::NormRow operator[](int64_t row) const {
    kernels::NormRow one = row_;
    one.x = x_[row];
    one.mean = mean_ ? mean_[row] : 0;
    one.inverse_deviation = inverse_[row];
    return one;
  }

 private:
  RowsAt<const char> x_;
  kernels::NormRow row_;
  const double* mean_;
  const double* inverse_;
};

// gradient_parts() of weight and bias; undefined for a parameter that the norm does not have. A
// norm without a weight has no bias.
struct ParameterParts {
  at::Tensor weight, bias;
  ParameterParts(const at::Tensor& x, const OptionalTensor& given_weight, bool has_bias)
      : weight(there(given_weight) ? gradient_parts(x) : at::Tensor()),
        bias(has_bias && there(given_weight) ? gradient_parts(x) : at::Tensor()) {}
};

// The operators below are for the CPU and for meta, where they only allocate the same tensors.

TwoTensors norm_sums(const at::Tensor& given, const OptionalTensor& given_branch,
                     const OptionalTensor& given_mean, bool squared) {
  const at::Tensor x = given.contiguous(), branch = contiguous_or_undefined(given_branch);
  const at::Tensor mean = double_or_undefined(given_mean);
  const at::Tensor added = branch.defined() ? at::empty_like(x) : at::Tensor();
  const at::Tensor sums = at::empty({num_rows(x)}, x.options().dtype(at::kDouble));
  if (!x.is_meta()) {
    const auto& kernels = kernels::vector_kernels();
    const auto type = element_type(x.scalar_type());
    const int64_t count = x.size(-1);
    const auto x_rows = rows_of(x), branch_rows = rows_of(branch);
    const auto added_rows = rows_to_write(added);
    const double* const means = mean.defined() ? mean.const_data_ptr<double>() : nullptr;
    double* const to = sums.mutable_data_ptr<double>();
    visit_rows_of(x, [&](int64_t row, int64_t) {
      const void* from = x_rows[row];
      if (branch.defined()) {
        to[row] = kernels.add_row(from, branch_rows[row], added_rows[row], type, count);
        from = added_rows[row];
      } else if (!squared) {
        to[row] = kernels.sum_row(from, type, count);
      }
      if (squared) {
        to[row] = kernels.squared_deviations(from, means ? means[row] : 0, type, count);
      }
    });
  }
  return {added, sums.to(compute_type(x.scalar_type()))};
}

at::Tensor normalize_rows(const at::Tensor& given, const OptionalTensor& given_mean,
                          const at::Tensor& given_inverse, const OptionalTensor& weight,
                          const OptionalTensor& bias, bool unit_offset) {
  const at::Tensor x = given.contiguous(), mean = double_or_undefined(given_mean);
  const at::Tensor inverse = given_inverse.to(at::kDouble);
  const at::Tensor y = at::empty_like(x);
  if (x.is_meta()) return y;
  const NormRows rows(x, weight, unit_offset, mean, inverse);
  const void* const shift = data_or_null(bias);
  const auto to = rows_to_write(y);
  visit_rows_of(x, [&](int64_t row, int64_t) {
    kernels::vector_kernels().normalize(rows[row], shift, to[row]);
  });
  return y;
}

FourTensors norm(const at::Tensor& given, const OptionalTensor& given_branch,
                 const OptionalTensor& weight, const OptionalTensor& bias, bool unit_offset,
                 bool centered, double epsilon) {
  const at::Tensor x = given.contiguous(), branch = contiguous_or_undefined(given_branch);
  const at::Tensor added = branch.defined() ? at::empty_like(x) : at::Tensor();
  const at::Tensor y = at::empty_like(x);
  const auto kept = x.options().dtype(norm_statistics_type(x, centered));
  const at::Tensor mean = centered ? at::empty({num_rows(x)}, kept) : at::Tensor();
  const at::Tensor inverse = at::empty({num_rows(x)}, kept);
  if (!x.is_meta()) {
    const auto& kernels = kernels::vector_kernels();
    const auto type = element_type(x.scalar_type());
    const int64_t count = x.size(-1);
    const auto x_rows = rows_of(x), branch_rows = rows_of(branch);
    const auto added_rows = rows_to_write(added), y_rows = rows_to_write(y);
    const void *const scale = data_or_null(weight), *const shift = data_or_null(bias);
    visit_rows_of(x, [&](int64_t row, int64_t) {
      kernels::NormRow one{.x = x_rows[row],
                           .weight = scale,
                           .type = type,
                           .count = count,
                           .unit_offset = unit_offset};
      double total = 0;
      if (branch.defined()) {
        total = kernels.add_row(one.x, branch_rows[row], added_rows[row], type, count);
        one.x = added_rows[row];
      } else if (centered) {
        total = kernels.sum_row(one.x, type, count);
      }
      if (centered) one.mean = total / static_cast<double>(count);
      const double squares = kernels.squared_deviations(one.x, one.mean, type, count);
      one.inverse_deviation = 1 / std::sqrt(squares / static_cast<double>(count) + epsilon);
      if (centered) put_rounded(mean, row, one.mean);
      put_rounded(inverse, row, one.inverse_deviation);
      kernels.normalize(one, shift, y_rows[row]);
    });
  }
  return {added, y, mean, inverse};
}

ThreeTensors norm_gradient_sums_of_rows(const at::Tensor& given_gradient, const at::Tensor& given,
                                        const OptionalTensor& given_mean,
                                        const at::Tensor& given_inverse,
                                        const OptionalTensor& weight, bool unit_offset) {
  const at::Tensor gradient = given_gradient.contiguous(), x = given.contiguous();
  const at::Tensor mean = double_or_undefined(given_mean), inverse = given_inverse.to(at::kDouble);
  const ParameterParts parts(x, weight, mean.defined());
  const at::Tensor sums =
      at::empty({mean.defined() ? 2 : 1, num_rows(x)}, x.options().dtype(at::kDouble));
  if (!x.is_meta()) {
    const NormRows rows(x, weight, unit_offset, mean, inverse);
    const auto gradient_rows = rows_of(gradient);
    const auto weight_sums = rows_to_write(parts.weight), bias_sums = rows_to_write(parts.bias);
    double* const products = sums.mutable_data_ptr<double>();
    double* const weighted = mean.defined() ? products + num_rows(x) : nullptr;
    visit_rows_of(x, [&](int64_t row, int64_t group) {
      const kernels::NormGradientSums of_row = kernels::vector_kernels().norm_gradient_sums(
          rows[row], gradient_rows[row], weight_sums[group], bias_sums[group]);
      products[row] = of_row.product;
      if (weighted) weighted[row] = of_row.weighted;
    });
  }
  return {sums.to(compute_type(x.scalar_type())), sum_or_none(parts.weight, x.scalar_type()),
          sum_or_none(parts.bias, x.scalar_type())};
}

at::Tensor norm_input_gradient_of_rows(const at::Tensor& given_gradient, const at::Tensor& given,
                                       const OptionalTensor& given_mean,
                                       const at::Tensor& given_inverse,
                                       const OptionalTensor& weight, bool unit_offset,
                                       const at::Tensor& given_means,
                                       const OptionalTensor& given_sum_gradient) {
  const at::Tensor gradient = given_gradient.contiguous(), x = given.contiguous();
  const at::Tensor mean = double_or_undefined(given_mean), inverse = given_inverse.to(at::kDouble);
  const at::Tensor means = given_means.to(at::kDouble);
  const at::Tensor sum_gradient = contiguous_or_undefined(given_sum_gradient);
  const at::Tensor x_gradient = at::empty_like(x);
  if (x.is_meta()) return x_gradient;
  const NormRows rows(x, weight, unit_offset, mean, inverse);
  const auto gradient_rows = rows_of(gradient), sum_gradient_rows = rows_of(sum_gradient);
  const auto to = rows_to_write(x_gradient);
  const double* const products = means.const_data_ptr<double>();
  const double* const weighted = mean.defined() ? products + num_rows(x) : nullptr;
  visit_rows_of(x, [&](int64_t row, int64_t) {
    kernels::vector_kernels().norm_input_gradient(rows[row], gradient_rows[row],
                                                  {products[row], weighted ? weighted[row] : 0},
                                                  sum_gradient_rows[row], to[row]);
  });
  return x_gradient;
}

ThreeTensors norm_backward(const at::Tensor& given_gradient, const at::Tensor& given,
                           const OptionalTensor& given_mean, const at::Tensor& given_inverse,
                           const OptionalTensor& weight, bool unit_offset,
                           const OptionalTensor& given_sum_gradient) {
  const at::Tensor gradient = given_gradient.contiguous(), x = given.contiguous();
  const at::Tensor mean = double_or_undefined(given_mean), inverse = given_inverse.to(at::kDouble);
  const at::Tensor sum_gradient = contiguous_or_undefined(given_sum_gradient);
  const at::Tensor x_gradient = at::empty_like(x);
  const ParameterParts parts(x, weight, mean.defined());
  if (!x.is_meta()) {
    const auto& kernels = kernels::vector_kernels();
    const NormRows rows(x, weight, unit_offset, mean, inverse);
    const auto gradient_rows = rows_of(gradient), sum_gradient_rows = rows_of(sum_gradient);
    const auto weight_sums = rows_to_write(parts.weight), bias_sums = rows_to_write(parts.bias);
    const auto to = rows_to_write(x_gradient);
    const auto features = static_cast<double>(x.size(-1));
    visit_rows_of(x, [&](int64_t row, int64_t group) {
      const kernels::NormRow one = rows[row];
      kernels::NormGradientSums sums =
          kernels.norm_gradient_sums(one, gradient_rows[row], weight_sums[group], bias_sums[group]);
      sums.product /= features;
      sums.weighted = mean.defined() ? sums.weighted / features : 0;
      kernels.norm_input_gradient(one, gradient_rows[row], sums, sum_gradient_rows[row], to[row]);
    });
  }
  return {x_gradient, sum_or_none(parts.weight, x.scalar_type()),
          sum_or_none(parts.bias, x.scalar_type())};
}

TORCH_LIBRARY_FRAGMENT(colossal, m) {
  m.def(
      "norm(Tensor x, Tensor? branch, Tensor? weight, Tensor? bias, bool unit_offset, bool "
      "centered, float epsilon) -> (Tensor added, Tensor y, Tensor mean, Tensor inverse)");
  m.def(
      "norm_backward(Tensor gradient, Tensor x, Tensor? mean, Tensor inverse, Tensor? weight, bool "
      "unit_offset, Tensor? sum_gradient) -> (Tensor x_gradient, Tensor weight_gradient, Tensor "
      "bias_gradient)");
  m.def(
      "norm_sums(Tensor x, Tensor? branch, Tensor? mean, bool squared) "
      "-> (Tensor added, Tensor sums)");
  m.def(
      "normalize(Tensor x, Tensor? mean, Tensor inverse, Tensor? weight, Tensor? bias, bool "
      "unit_offset) -> Tensor");
  m.def(
      "norm_gradient_sums(Tensor gradient, Tensor x, Tensor? mean, Tensor inverse, Tensor? weight, "
      "bool unit_offset) -> (Tensor sums, Tensor weight_gradient, Tensor bias_gradient)");
  m.def(
      "norm_input_gradient(Tensor gradient, Tensor x, Tensor? mean, Tensor inverse, Tensor? "
      "weight, bool unit_offset, Tensor means, Tensor? sum_gradient) -> Tensor");
}

void implement_norms(torch::Library& m) {
  m.impl("norm", norm);
  m.impl("norm_backward", norm_backward);
  m.impl("norm_sums", norm_sums);
  m.impl("normalize", normalize_rows);
  m.impl("norm_gradient_sums", norm_gradient_sums_of_rows);
  m.impl("norm_input_gradient", norm_input_gradient_of_rows);
}
TORCH_LIBRARY_IMPL(colossal, CPU, m) {
  implement_norms(m);
}
TORCH_LIBRARY_IMPL(colossal, Meta, m) {
  implement_norms(m);
}
TORCH_LIBRARY_IMPL(colossal, CompositeExplicitAutograd, m) {
  m.impl("norm", aten_fallback::norm);
  m.impl("norm_backward", aten_fallback::norm_backward);
  m.impl("norm_sums", aten_fallback::norm_sums);
  m.impl("normalize", aten_fallback::normalize);
  m.impl("norm_gradient_sums", aten_fallback::norm_gradient_sums);
  m.impl("norm_input_gradient", aten_fallback::norm_input_gradient);
}

}  // namespace

at::ScalarType norm_statistics_type(const at::Tensor& x, bool centered) {
  return centered ? x.scalar_type() : compute_type(x.scalar_type());
}

RowSums row_sums(const at::Tensor& x, const at::Tensor& branch) {
  static const auto op = find_operator<decltype(norm_sums)>("colossal::norm_sums");
  auto [added, sums] = op.call(x, branch, {}, /*squared=*/false);
  return {added, sums};
}

RowSums squared_deviations(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& mean) {
  static const auto op = find_operator<decltype(norm_sums)>("colossal::norm_sums");
  auto [added, sums] = op.call(x, branch, mean, /*squared=*/true);
  return {added, sums};
}

at::Tensor normalize(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& inverse,
                     const at::Tensor& weight, const at::Tensor& bias, bool unit_offset) {
  static const auto op = find_operator<decltype(normalize_rows)>("colossal::normalize");
  return op.call(x, mean, inverse, weight, bias, unit_offset);
}

NormGradientSums norm_gradient_sums(const at::Tensor& gradient, const at::Tensor& x,
                                    const at::Tensor& mean, const at::Tensor& inverse,
                                    const at::Tensor& weight, bool unit_offset) {
  static const auto op =
      find_operator<decltype(norm_gradient_sums_of_rows)>("colossal::norm_gradient_sums");
  auto [sums, weight_gradient, bias_gradient] =
      op.call(gradient, x, mean, inverse, weight, unit_offset);
  return {sums, weight_gradient, bias_gradient};
}

at::Tensor norm_input_gradient(const at::Tensor& gradient, const at::Tensor& x,
                               const at::Tensor& mean, const at::Tensor& inverse,
                               const at::Tensor& weight, bool unit_offset, const at::Tensor& means,
                               const at::Tensor& sum_gradient) {
  static const auto op =
      find_operator<decltype(norm_input_gradient_of_rows)>("colossal::norm_input_gradient");
  return op.call(gradient, x, mean, inverse, weight, unit_offset, means, sum_gradient);
}

}  // namespace colossal::ops
