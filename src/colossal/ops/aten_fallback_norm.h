// Norm operators composed of LibTorch's operators; see aten_fallback.h. Arguments and results are
// those of norm_passes.h, norm.h and head_norm.h; an undefined tensor stands for none.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace colossal::ops::aten_fallback {

using OptionalTensor = std::optional<at::Tensor>;
using TwoTensors = std::tuple<at::Tensor, at::Tensor>;
using ThreeTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using FourTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// {x + branch, undefined without a branch; sums over each row [rows]}: see RowSums. squared: sums
// squares. mean is subtracted first, unless it is undefined.
TwoTensors norm_sums(const at::Tensor& x, const OptionalTensor& branch, const OptionalTensor& mean,
                     bool squared);
at::Tensor normalize(const at::Tensor& x, const OptionalTensor& mean, const at::Tensor& inverse,
                     const OptionalTensor& weight, const OptionalTensor& bias, bool unit_offset);
// {x + branch, undefined without a branch; output; mean, undefined unless centered; inverse}
FourTensors norm(const at::Tensor& x, const OptionalTensor& branch, const OptionalTensor& weight,
                 const OptionalTensor& bias, bool unit_offset, bool centered, double epsilon);
// The members of NormGradientSums: {sums, weight_gradient, bias_gradient}.
ThreeTensors norm_gradient_sums(const at::Tensor& given_gradient, const at::Tensor& x,
                                const OptionalTensor& mean, const at::Tensor& inverse,
                                const OptionalTensor& weight, bool unit_offset);
at::Tensor norm_input_gradient(const at::Tensor& gradient, const at::Tensor& x,
                               const OptionalTensor& mean, const at::Tensor& inverse,
                               const OptionalTensor& weight, bool unit_offset,
                               const at::Tensor& means, const OptionalTensor& sum_gradient);
// {gradient of x, of weight, of bias}; the last two as in NormGradientSums.
ThreeTensors norm_backward(const at::Tensor& gradient, const at::Tensor& x,
                           const OptionalTensor& mean, const at::Tensor& inverse,
                           const OptionalTensor& weight, bool unit_offset,
                           const OptionalTensor& sum_gradient);

// {output; mean, undefined unless centered; inverse}, the last two [tokens * normalized heads]
ThreeTensors head_norm(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                       bool unit_offset, bool centered, double epsilon);
// {gradient of x, of weight, of bias; undefined without a bias}
ThreeTensors head_norm_backward(const at::Tensor& gradient, const at::Tensor& x,
                                const OptionalTensor& mean, const at::Tensor& inverse,
                                const at::Tensor& weight, bool unit_offset, bool has_bias);

}  // namespace colossal::ops::aten_fallback
