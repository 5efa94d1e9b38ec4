#include "colossal/ops/norm_passes.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>

#include "colossal/ops/any_device_norm.h"
#include "colossal/ops/dispatch.h"
#include "colossal/ops/flat_tensor.h"

namespace colossal::ops {
namespace {

using any_device::FourTensors;
using any_device::OptionalTensor;
using any_device::ThreeTensors;
using any_device::TwoTensors;

// Rows whose shares of the parameters' gradients are summed one after the other: the same bits for
// any number of threads.
constexpr int64_t kRowsTogether = 64;

int64_t num_rows(const at::Tensor& x) {
  return c10::multiply_integers(x.sizes().slice(0, x.dim() - 1));
}

int64_t num_groups(const at::Tensor& x) {
  return (num_rows(x) + kRowsTogether - 1) / kRowsTogether;
}

at::Tensor contiguous_or_none(const OptionalTensor& given) {
  return given && given->defined() ? given->contiguous() : at::Tensor();
}

at::Tensor doubles_or_none(const OptionalTensor& given) {
  return given && given->defined() ? given->to(at::kDouble) : at::Tensor();
}

// Where the rows of a contiguous tensor are; null without one.
template <typename Byte>
struct RowsAt {
  Byte* data;
  int64_t row_bytes;
  auto* operator[](int64_t row) const { return data ? data + row * row_bytes : nullptr; }
};

RowsAt<const char> rows_of(const at::Tensor& x) {
  if (!x.defined()) return {};
  return {static_cast<const char*>(x.const_data_ptr()), x.size(-1) * x.element_size()};
}

RowsAt<char> rows_to_write(const at::Tensor& x) {
  if (!x.defined()) return {};
  return {static_cast<char*>(x.mutable_data_ptr()), x.size(-1) * x.element_size()};
}

// visit(row, its group of kRowsTogether)
template <typename Visit>
void visit_rows_of(const at::Tensor& x, const Visit& visit) {
  at::parallel_for(0, num_groups(x), 1, [&](int64_t begin, int64_t end) {
    const int64_t last = std::min(num_rows(x), end * kRowsTogether);
    for (int64_t row = begin * kRowsTogether; row < last; ++row) visit(row, row / kRowsTogether);
  });
}

// Rows of which n is made, as the kernels take them.
class NormRows {
 public:
  NormRows(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& mean,
           const at::Tensor& inverse)
      : x_(rows_of(x)),
        row_{.weight = weight.const_data_ptr(),
             .type = element_type(x.scalar_type()),
             .count = x.size(-1)},
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

// A parameter's gradient in parts, one of each group of rows: [groups, features].
at::Tensor gradient_parts(const at::Tensor& x) {
  return at::zeros({std::max<int64_t>(1, num_groups(x)), x.size(-1)},
                   x.options().dtype(compute_type(x.scalar_type())));
}

// The sum of the parts, in their order, whoever adds which features.
at::Tensor sum_of_parts(const at::Tensor& parts, at::ScalarType type) {
  const int64_t count = parts.size(0), features = parts.size(1);
  at::Tensor total = at::empty({features}, parts.options().dtype(type));
  if (parts.is_meta()) return total;
  const auto wide = element_type(parts.scalar_type()), narrow = element_type(type);
  const RowsAt<char> rows = rows_to_write(parts);
  auto* const to = static_cast<char*>(total.mutable_data_ptr());
  at::parallel_for(0, features, kElementsPerThread / count + 1, [&](int64_t begin, int64_t end) {
    const auto from = [&](int64_t part) { return rows[part] + begin * parts.element_size(); };
    for (int64_t part = 1; part < count; ++part) {
      kernels::vector_kernels().accumulate(from(part), wide, from(0), wide, end - begin);
    }
    kernels::vector_kernels().convert(from(0), wide, to + begin * total.element_size(), narrow,
                                      end - begin, 1);
  });
  return total;
}

// Each function for the CPU is the one for meta too: it allocates the same, then finds no numbers.

TwoTensors norm_sums(const at::Tensor& given, const OptionalTensor& given_branch,
                     const OptionalTensor& given_mean, bool squared) {
  const at::Tensor x = given.contiguous(), branch = contiguous_or_none(given_branch);
  const at::Tensor mean = doubles_or_none(given_mean);
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
                          const at::Tensor& given_inverse, const at::Tensor& weight,
                          const OptionalTensor& bias) {
  const at::Tensor x = given.contiguous(), mean = doubles_or_none(given_mean);
  const at::Tensor inverse = given_inverse.to(at::kDouble);
  const at::Tensor y = at::empty_like(x);
  if (x.is_meta()) return y;
  const NormRows rows(x, weight, mean, inverse);
  const void* const shift = bias && bias->defined() ? bias->const_data_ptr() : nullptr;
  const auto to = rows_to_write(y);
  visit_rows_of(x, [&](int64_t row, int64_t) {
    kernels::vector_kernels().normalize(rows[row], shift, to[row]);
  });
  return y;
}

FourTensors norm(const at::Tensor& given, const OptionalTensor& given_branch,
                 const at::Tensor& weight, const OptionalTensor& bias, bool centered,
                 double epsilon) {
  const at::Tensor x = given.contiguous(), branch = contiguous_or_none(given_branch);
  const at::Tensor added = branch.defined() ? at::empty_like(x) : at::Tensor();
  const at::Tensor y = at::empty_like(x);
  const auto wide = x.options().dtype(at::kDouble);
  at::Tensor mean = centered ? at::empty({num_rows(x)}, wide) : at::Tensor();
  at::Tensor inverse = at::empty({num_rows(x)}, wide);
  if (!x.is_meta()) {
    const auto& kernels = kernels::vector_kernels();
    const auto type = element_type(x.scalar_type());
    const int64_t count = x.size(-1);
    const auto x_rows = rows_of(x), branch_rows = rows_of(branch);
    const auto added_rows = rows_to_write(added), y_rows = rows_to_write(y);
    const void* const shift = bias && bias->defined() ? bias->const_data_ptr() : nullptr;
    double* const means = centered ? mean.mutable_data_ptr<double>() : nullptr;
    double* const inverses = inverse.mutable_data_ptr<double>();
    visit_rows_of(x, [&](int64_t row, int64_t) {
      kernels::NormRow one{
          .x = x_rows[row], .weight = weight.const_data_ptr(), .type = type, .count = count};
      double total = 0;
      if (branch.defined()) {
        total = kernels.add_row(one.x, branch_rows[row], added_rows[row], type, count);
        one.x = added_rows[row];
      } else if (centered) {
        total = kernels.sum_row(one.x, type, count);
      }
      if (centered) one.mean = means[row] = total / static_cast<double>(count);
      const double squares = kernels.squared_deviations(one.x, one.mean, type, count);
      one.inverse_deviation = 1 / std::sqrt(squares / static_cast<double>(count) + epsilon);
      inverses[row] = one.inverse_deviation;
      kernels.normalize(one, shift, y_rows[row]);
    });
  }
  const at::ScalarType kept = norm_statistics_type(x, centered);
  return {added, y, centered ? mean.to(kept) : at::Tensor(), inverse.to(kept)};
}

ThreeTensors norm_gradient_sums_of_rows(const at::Tensor& given_gradient, const at::Tensor& given,
                                        const OptionalTensor& given_mean,
                                        const at::Tensor& given_inverse, const at::Tensor& weight) {
  const at::Tensor gradient = given_gradient.contiguous(), x = given.contiguous();
  const at::Tensor mean = doubles_or_none(given_mean), inverse = given_inverse.to(at::kDouble);
  const at::Tensor weight_parts = gradient_parts(x);
  const at::Tensor bias_parts = mean.defined() ? gradient_parts(x) : at::Tensor();
  const at::Tensor sums =
      at::empty({mean.defined() ? 2 : 1, num_rows(x)}, x.options().dtype(at::kDouble));
  if (!x.is_meta()) {
    const NormRows rows(x, weight, mean, inverse);
    const auto gradient_rows = rows_of(gradient);
    const auto weight_sums = rows_to_write(weight_parts), bias_sums = rows_to_write(bias_parts);
    double* const products = sums.mutable_data_ptr<double>();
    double* const weighted = mean.defined() ? products + num_rows(x) : nullptr;
    visit_rows_of(x, [&](int64_t row, int64_t group) {
      const kernels::NormGradientSums of_row = kernels::vector_kernels().norm_gradient_sums(
          rows[row], gradient_rows[row], weight_sums[group], bias_sums[group]);
      products[row] = of_row.product;
      if (weighted) weighted[row] = of_row.weighted;
    });
  }
  return {sums.to(compute_type(x.scalar_type())), sum_of_parts(weight_parts, weight.scalar_type()),
          mean.defined() ? sum_of_parts(bias_parts, weight.scalar_type()) : at::Tensor()};
}

at::Tensor norm_input_gradient_of_rows(const at::Tensor& given_gradient, const at::Tensor& given,
                                       const OptionalTensor& given_mean,
                                       const at::Tensor& given_inverse, const at::Tensor& weight,
                                       const at::Tensor& given_means,
                                       const OptionalTensor& given_sum_gradient) {
  const at::Tensor gradient = given_gradient.contiguous(), x = given.contiguous();
  const at::Tensor mean = doubles_or_none(given_mean), inverse = given_inverse.to(at::kDouble);
  const at::Tensor means = given_means.to(at::kDouble);
  const at::Tensor sum_gradient = contiguous_or_none(given_sum_gradient);
  const at::Tensor x_gradient = at::empty_like(x);
  if (x.is_meta()) return x_gradient;
  const NormRows rows(x, weight, mean, inverse);
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
                           const at::Tensor& weight, const OptionalTensor& given_sum_gradient) {
  const at::Tensor gradient = given_gradient.contiguous(), x = given.contiguous();
  const at::Tensor mean = doubles_or_none(given_mean), inverse = given_inverse.to(at::kDouble);
  const at::Tensor sum_gradient = contiguous_or_none(given_sum_gradient);
  const at::Tensor x_gradient = at::empty_like(x);
  const at::Tensor weight_parts = gradient_parts(x);
  const at::Tensor bias_parts = mean.defined() ? gradient_parts(x) : at::Tensor();
  if (!x.is_meta()) {
    const auto& kernels = kernels::vector_kernels();
    const NormRows rows(x, weight, mean, inverse);
    const auto gradient_rows = rows_of(gradient), sum_gradient_rows = rows_of(sum_gradient);
    const auto weight_sums = rows_to_write(weight_parts), bias_sums = rows_to_write(bias_parts);
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
  return {x_gradient, sum_of_parts(weight_parts, weight.scalar_type()),
          mean.defined() ? sum_of_parts(bias_parts, weight.scalar_type()) : at::Tensor()};
}

TORCH_LIBRARY_FRAGMENT(colossal, m) {
  m.def(
      "norm(Tensor x, Tensor? branch, Tensor weight, Tensor? bias, bool centered, float epsilon) "
      "-> (Tensor added, Tensor y, Tensor mean, Tensor inverse)");
  m.def(
      "norm_backward(Tensor gradient, Tensor x, Tensor? mean, Tensor inverse, Tensor weight, "
      "Tensor? sum_gradient) -> (Tensor x_gradient, Tensor weight_gradient, Tensor bias_gradient)");
  m.def(
      "norm_sums(Tensor x, Tensor? branch, Tensor? mean, bool squared) "
      "-> (Tensor added, Tensor sums)");
  m.def("normalize(Tensor x, Tensor? mean, Tensor inverse, Tensor weight, Tensor? bias) -> Tensor");
  m.def(
      "norm_gradient_sums(Tensor gradient, Tensor x, Tensor? mean, Tensor inverse, Tensor weight) "
      "-> (Tensor sums, Tensor weight_gradient, Tensor bias_gradient)");
  m.def(
      "norm_input_gradient(Tensor gradient, Tensor x, Tensor? mean, Tensor inverse, Tensor weight, "
      "Tensor means, Tensor? sum_gradient) -> Tensor");
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
  m.impl("norm", any_device::norm);
  m.impl("norm_backward", any_device::norm_backward);
  m.impl("norm_sums", any_device::norm_sums);
  m.impl("normalize", any_device::normalize);
  m.impl("norm_gradient_sums", any_device::norm_gradient_sums);
  m.impl("norm_input_gradient", any_device::norm_input_gradient);
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
                     const at::Tensor& weight, const at::Tensor& bias) {
  static const auto op = find_operator<decltype(normalize_rows)>("colossal::normalize");
  return op.call(x, mean, inverse, weight, bias);
}

NormGradientSums norm_gradient_sums(const at::Tensor& gradient, const at::Tensor& x,
                                    const at::Tensor& mean, const at::Tensor& inverse,
                                    const at::Tensor& weight) {
  static const auto op =
      find_operator<decltype(norm_gradient_sums_of_rows)>("colossal::norm_gradient_sums");
  auto [sums, weight_gradient, bias_gradient] = op.call(gradient, x, mean, inverse, weight);
  return {sums, weight_gradient, bias_gradient};
}

at::Tensor norm_input_gradient(const at::Tensor& gradient, const at::Tensor& x,
                               const at::Tensor& mean, const at::Tensor& inverse,
                               const at::Tensor& weight, const at::Tensor& means,
                               const at::Tensor& sum_gradient) {
  static const auto op =
      find_operator<decltype(norm_input_gradient_of_rows)>("colossal::norm_input_gradient");
  return op.call(gradient, x, mean, inverse, weight, means, sum_gradient);
}

}  // namespace colossal::ops
