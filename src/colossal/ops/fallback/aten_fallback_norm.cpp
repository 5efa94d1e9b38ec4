#include "colossal/ops/fallback/aten_fallback_norm.h"

#include <ATen/ATen.h>

#include "colossal/ops/flat_tensor.h"
#include "colossal/ops/norm/norm_passes.h"

namespace colossal::ops::aten_fallback {
namespace {

bool there(const OptionalTensor& given) {
  return given && given->defined();
}

at::Tensor widened(const at::Tensor& x) {
  return x.to(compute_type(x.scalar_type()));
}

// Returns of_rows [rows] in the compute type, in x's shape but with 1 as the last size.
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
  return (there(mean) ? wide - column(*mean, x) : wide) * column(inverse, x);
}

// Returns `wide`, which is n or a gradient in the compute type, times the factor of n: weight, 1 +
// weight if unit_offset, or 1 if there is no weight.
at::Tensor multiplied(const at::Tensor& wide, const OptionalTensor& weight, bool unit_offset) {
  if (!there(weight)) return wide;
  const at::Tensor factor = widened(*weight);
  return wide * (unit_offset ? factor + 1 : factor);
}

at::Tensor over_rows(const at::Tensor& x, at::ScalarType type) {
  return x.flatten(0, -2).sum(0).to(type);
}

}  // namespace

TwoTensors norm_sums(const at::Tensor& x, const OptionalTensor& branch, const OptionalTensor& mean,
                     bool squared) {
  const at::Tensor added = there(branch) ? (x + *branch).contiguous() : at::Tensor();
  at::Tensor wide = widened(added.defined() ? added : x);
  if (there(mean)) wide = wide - column(*mean, x);
  return {added, sum_of_features(squared ? wide.square() : wide)};
}

at::Tensor normalize(const at::Tensor& x, const OptionalTensor& mean, const at::Tensor& inverse,
                     const OptionalTensor& weight, const OptionalTensor& bias, bool unit_offset) {
  const at::Tensor y = multiplied(normal_rows(x, mean, inverse), weight, unit_offset);
  return (there(bias) ? y + *bias : y).to(x.scalar_type()).contiguous();
}

FourTensors norm(const at::Tensor& x, const OptionalTensor& branch, const OptionalTensor& weight,
                 const OptionalTensor& bias, bool unit_offset, bool centered, double epsilon) {
  const auto features = static_cast<double>(x.size(-1));
  const auto [added, totals] = norm_sums(x, branch, {}, /*squared=*/false);
  const at::Tensor& input = added.defined() ? added : x;
  const at::Tensor mean = centered ? totals / features : at::Tensor();
  const at::Tensor squares = std::get<1>(norm_sums(input, {}, mean, /*squared=*/true));
  const at::Tensor inverse = (squares / features + epsilon).rsqrt();
  const at::ScalarType kept = norm_statistics_type(x, centered);
  return {added, normalize(input, mean, inverse, weight, bias, unit_offset),
          centered ? mean.to(kept) : at::Tensor(), inverse.to(kept)};
}

ThreeTensors norm_gradient_sums(const at::Tensor& given_gradient, const at::Tensor& x,
                                const OptionalTensor& mean, const at::Tensor& inverse,
                                const OptionalTensor& weight, bool unit_offset) {
  const bool centered = there(mean);
  const at::Tensor gradient = widened(given_gradient), normal = normal_rows(x, mean, inverse);
  const at::Tensor weighted = multiplied(gradient, weight, unit_offset);
  std::vector<at::Tensor> sums{sum_of_features(weighted * normal)};
  if (centered) sums.push_back(sum_of_features(weighted));
  if (!there(weight)) return {at::stack(sums), {}, {}};
  return {at::stack(sums), over_rows(gradient * normal, x.scalar_type()),
          centered ? over_rows(gradient, x.scalar_type()) : at::Tensor()};
}

at::Tensor norm_input_gradient(const at::Tensor& gradient, const at::Tensor& x,
                               const OptionalTensor& mean, const at::Tensor& inverse,
                               const OptionalTensor& weight, bool unit_offset,
                               const at::Tensor& means, const OptionalTensor& sum_gradient) {
  at::Tensor x_gradient = multiplied(widened(gradient), weight, unit_offset) -
                          normal_rows(x, mean, inverse) * column(means[0], x);
  if (there(mean)) x_gradient = x_gradient - column(means[1], x);
  x_gradient = x_gradient * column(inverse, x);
  if (there(sum_gradient)) x_gradient = x_gradient + *sum_gradient;
  return x_gradient.to(x.scalar_type()).contiguous();
}

ThreeTensors norm_backward(const at::Tensor& gradient, const at::Tensor& x,
                           const OptionalTensor& mean, const at::Tensor& inverse,
                           const OptionalTensor& weight, bool unit_offset,
                           const OptionalTensor& sum_gradient) {
  auto [sums, weight_gradient, bias_gradient] =
      norm_gradient_sums(gradient, x, mean, inverse, weight, unit_offset);
  const at::Tensor means = sums / static_cast<double>(x.size(-1));
  return {norm_input_gradient(gradient, x, mean, inverse, weight, unit_offset, means, sum_gradient),
          weight_gradient, bias_gradient};
}

ThreeTensors head_norm(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                       bool unit_offset, bool centered, double epsilon) {
  const int64_t normed = weight.size(0);
  const at::Tensor rows = widened(x.narrow(-2, 0, normed));
  const at::Tensor mean = centered ? rows.mean(-1, true) : at::Tensor();
  const at::Tensor deviations = centered ? rows - mean : rows;
  const at::Tensor inverse = (deviations.square().mean(-1, true) + epsilon).rsqrt();
  at::Tensor result = multiplied(deviations * inverse, weight, unit_offset);
  if (there(bias)) result = result + *bias;
  const at::Tensor y = x.clone(at::MemoryFormat::Contiguous);
  y.narrow(-2, 0, normed).copy_(result);
  return {y, centered ? mean.flatten() : at::Tensor(), inverse.flatten()};
}

ThreeTensors head_norm_backward(const at::Tensor& given_gradient, const at::Tensor& given,
                                const OptionalTensor& mean, const at::Tensor& inverse,
                                const at::Tensor& weight, bool unit_offset, bool has_bias) {
  const int64_t normed = weight.size(0);
  const at::Tensor x = given.narrow(-2, 0, normed);
  const at::Tensor gradient = widened(given_gradient.narrow(-2, 0, normed));
  const at::Tensor normal = normal_rows(x, mean, inverse);
  const at::Tensor slope = multiplied(gradient, weight, unit_offset);
  at::Tensor of_rows = slope - normal * (slope * normal).mean(-1, true);
  if (there(mean)) of_rows = of_rows - slope.mean(-1, true);
  const at::Tensor x_gradient = given_gradient.clone(at::MemoryFormat::Contiguous);
  x_gradient.narrow(-2, 0, normed).copy_(of_rows * column(inverse, x));
  const auto over_tokens = [&](const at::Tensor& of_heads) {
    return of_heads.reshape({-1, normed, x.size(-1)}).sum(0).to(x.scalar_type());
  };
  return {x_gradient, over_tokens(gradient * normal),
          has_bias ? over_tokens(gradient) : at::Tensor()};
}

}  // namespace colossal::ops::aten_fallback
