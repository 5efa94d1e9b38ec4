#include "colossal/ops/any_device_norm.h"

#include <ATen/ATen.h>

#include "colossal/ops/flat_tensor.h"
#include "colossal/ops/norm_passes.h"

namespace colossal::ops::any_device {
namespace {

at::Tensor widened(const at::Tensor& x) {
  return x.to(compute_type(x.scalar_type()));
}

// [rows] as [.., 1] beside x.
at::Tensor column(const at::Tensor& of_rows, const at::Tensor& x) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = 1;
  return widened(of_rows).view(sizes);
}

at::Tensor sum_of_features(const at::Tensor& x) {
  return x.sum(-1).flatten();
}

at::Tensor normal_rows(const at::Tensor& x, const OptionalTensor& mean, const at::Tensor& inverse) {
  const at::Tensor wide = widened(x);
  return (mean && mean->defined() ? wide - column(*mean, x) : wide) * column(inverse, x);
}

at::Tensor over_rows(const at::Tensor& x, at::ScalarType type) {
  return x.flatten(0, -2).sum(0).to(type);
}

}  // namespace

TwoTensors norm_sums(const at::Tensor& x, const OptionalTensor& branch, const OptionalTensor& mean,
                     bool squared) {
  const at::Tensor added = branch && branch->defined() ? (x + *branch).contiguous() : at::Tensor();
  at::Tensor wide = widened(added.defined() ? added : x);
  if (mean && mean->defined()) wide = wide - column(*mean, x);
  return {added, sum_of_features(squared ? wide.square() : wide)};
}

at::Tensor normalize(const at::Tensor& x, const OptionalTensor& mean, const at::Tensor& inverse,
                     const at::Tensor& weight, const OptionalTensor& bias) {
  const at::Tensor y = normal_rows(x, mean, inverse) * weight;
  return (bias && bias->defined() ? y + *bias : y).to(x.scalar_type()).contiguous();
}

FourTensors norm(const at::Tensor& x, const OptionalTensor& branch, const at::Tensor& weight,
                 const OptionalTensor& bias, bool centered, double epsilon) {
  const auto features = static_cast<double>(x.size(-1));
  const auto [added, totals] = norm_sums(x, branch, {}, /*squared=*/false);
  const at::Tensor& input = added.defined() ? added : x;
  const at::Tensor mean = centered ? totals / features : at::Tensor();
  const at::Tensor squares = std::get<1>(norm_sums(input, {}, mean, /*squared=*/true));
  const at::Tensor inverse = (squares / features + epsilon).rsqrt();
  const at::ScalarType kept = norm_statistics_type(x, centered);
  return {added, normalize(input, mean, inverse, weight, bias),
          centered ? mean.to(kept) : at::Tensor(), inverse.to(kept)};
}

ThreeTensors norm_gradient_sums(const at::Tensor& given_gradient, const at::Tensor& x,
                                const OptionalTensor& mean, const at::Tensor& inverse,
                                const at::Tensor& weight) {
  const bool centered = mean && mean->defined();
  const at::Tensor gradient = widened(given_gradient), normal = normal_rows(x, mean, inverse);
  const at::Tensor weighted = gradient * weight;
  std::vector<at::Tensor> sums{sum_of_features(weighted * normal)};
  if (centered) sums.push_back(sum_of_features(weighted));
  return {at::stack(sums), over_rows(gradient * normal, weight.scalar_type()),
          centered ? over_rows(gradient, weight.scalar_type()) : at::Tensor()};
}

at::Tensor norm_input_gradient(const at::Tensor& gradient, const at::Tensor& x,
                               const OptionalTensor& mean, const at::Tensor& inverse,
                               const at::Tensor& weight, const at::Tensor& means,
                               const OptionalTensor& sum_gradient) {
  at::Tensor x_gradient =
      widened(gradient) * weight - normal_rows(x, mean, inverse) * column(means[0], x);
  if (mean && mean->defined()) x_gradient = x_gradient - column(means[1], x);
  x_gradient = x_gradient * column(inverse, x);
  if (sum_gradient && sum_gradient->defined()) x_gradient = x_gradient + *sum_gradient;
  return x_gradient.to(x.scalar_type()).contiguous();
}

ThreeTensors norm_backward(const at::Tensor& gradient, const at::Tensor& x,
                           const OptionalTensor& mean, const at::Tensor& inverse,
                           const at::Tensor& weight, const OptionalTensor& sum_gradient) {
  auto [sums, weight_gradient, bias_gradient] =
      norm_gradient_sums(gradient, x, mean, inverse, weight);
  const at::Tensor means = sums / static_cast<double>(x.size(-1));
  return {norm_input_gradient(gradient, x, mean, inverse, weight, means, sum_gradient),
          weight_gradient, bias_gradient};
}

}  // namespace colossal::ops::any_device
