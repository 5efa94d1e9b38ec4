// The norms of whole rows on GPUs: LibTorch's fused layer norm and RMS norm. aten_fallback_norm.h
// describes the arguments and results. It also computes what LibTorch's functions lack: the factor
// 1 + weight in a narrow type.
#include <ATen/ops/_fused_rms_norm.h>
#include <ATen/ops/_fused_rms_norm_backward.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <torch/library.h>

#include "colossal/ops/fallback/aten_fallback_norm.h"
#include "colossal/ops/flat_tensor.h"
#include "colossal/ops/norm/norm_passes.h"

namespace colossal::ops::gpu {
namespace {

using aten_fallback::FourTensors;
using aten_fallback::OptionalTensor;
using aten_fallback::ThreeTensors;

bool there(const OptionalTensor& given) {
  return given && given->defined();
}

// Whether the factor is the weight itself, or can be computed in the weight's type without rounding
// differently.
bool is_supported(const at::Tensor& x, const OptionalTensor& weight, bool unit_offset) {
  const bool wide = x.scalar_type() == compute_type(x.scalar_type());
  return x.numel() > 0 && (!there(weight) || !unit_offset || wide);
}

OptionalTensor factor_of(const OptionalTensor& weight, bool unit_offset) {
  if (!there(weight)) return std::nullopt;
  return unit_offset ? *weight + 1 : *weight;
}

// Returns statistics of rows [rows] as LibTorch's functions save them for x.
at::Tensor column(const at::Tensor& of_rows, const at::Tensor& x) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = 1;
  return of_rows.to(compute_type(x.scalar_type())).view(sizes);
}

FourTensors norm(const at::Tensor& x, const OptionalTensor& branch, const OptionalTensor& weight,
                 const OptionalTensor& bias, bool unit_offset, bool centered, double epsilon) {
  if (!is_supported(x, weight, unit_offset)) {
    return aten_fallback::norm(x, branch, weight, bias, unit_offset, centered, epsilon);
  }
  const at::Tensor added = there(branch) ? (x + *branch).contiguous() : at::Tensor();
  const at::Tensor input = added.defined() ? added : x.contiguous();
  const OptionalTensor factor = factor_of(weight, unit_offset);
  const at::IntArrayRef features = input.sizes().slice(input.dim() - 1);
  const at::ScalarType kept = norm_statistics_type(x, centered);
  if (!centered) {
    const auto [y, inverse] = at::_fused_rms_norm(input, features, factor, epsilon);
    return {added, y, at::Tensor(), inverse.flatten().to(kept)};
  }
  const auto [y, mean, inverse] = at::native_layer_norm(
      input, features, factor, there(bias) ? bias : OptionalTensor(), epsilon);
  return {added, y, mean.flatten().to(kept), inverse.flatten().to(kept)};
}

ThreeTensors norm_backward(const at::Tensor& gradient, const at::Tensor& given,
                           const OptionalTensor& mean, const at::Tensor& inverse,
                           const OptionalTensor& weight, bool unit_offset,
                           const OptionalTensor& sum_gradient) {
  if (!is_supported(given, weight, unit_offset)) {
    return aten_fallback::norm_backward(gradient, given, mean, inverse, weight, unit_offset,
                                        sum_gradient);
  }
  const at::Tensor x = given.contiguous();
  const OptionalTensor factor = factor_of(weight, unit_offset);
  const at::IntArrayRef features = x.sizes().slice(x.dim() - 1);
  const bool weighted = there(weight);
  ThreeTensors gradients;
  if (there(mean)) {
    // The factor stands for the bias, of which only the shape counts.
    gradients = at::native_layer_norm_backward(gradient.contiguous(), x, features, column(*mean, x),
                                               column(inverse, x), factor, factor,
                                               {true, weighted, weighted});
  } else {
    const auto [of_x, of_weight] = at::_fused_rms_norm_backward(
        gradient.contiguous(), x, features, column(inverse, x), factor, {true, weighted});
    gradients = {of_x, of_weight, at::Tensor()};
  }
  if (there(sum_gradient)) std::get<0>(gradients).add_(*sum_gradient);
  return gradients;
}

TORCH_LIBRARY_IMPL(colossal, CUDA, m) {
  m.impl("norm", norm);
  m.impl("norm_backward", norm_backward);
}

}  // namespace
}  // namespace colossal::ops::gpu
