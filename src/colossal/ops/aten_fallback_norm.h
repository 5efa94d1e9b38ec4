// Norm operators composed of LibTorch's operators; see aten_fallback.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace colossal::ops::aten_fallback {

using OptionalTensor = std::optional<at::Tensor>;
using TwoTensors = std::tuple<at::Tensor, at::Tensor>;
using ThreeTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using FourTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

TwoTensors norm_sums(const at::Tensor& x, const OptionalTensor& branch, const OptionalTensor& mean,
                     bool squared);
at::Tensor normalize(const at::Tensor& x, const OptionalTensor& mean, const at::Tensor& inverse,
                     const OptionalTensor& weight, const OptionalTensor& bias, bool unit_offset);
FourTensors norm(const at::Tensor& x, const OptionalTensor& branch, const OptionalTensor& weight,
                 const OptionalTensor& bias, bool unit_offset, bool centered, double epsilon);
ThreeTensors norm_gradient_sums(const at::Tensor& given_gradient, const at::Tensor& x,
                                const OptionalTensor& mean, const at::Tensor& inverse,
                                const OptionalTensor& weight, bool unit_offset);
at::Tensor norm_input_gradient(const at::Tensor& gradient, const at::Tensor& x,
                               const OptionalTensor& mean, const at::Tensor& inverse,
                               const OptionalTensor& weight, bool unit_offset,
                               const at::Tensor& means, const OptionalTensor& sum_gradient);
ThreeTensors norm_backward(const at::Tensor& gradient, const at::Tensor& x,
                           const OptionalTensor& mean, const at::Tensor& inverse,
                           const OptionalTensor& weight, bool unit_offset,
                           const OptionalTensor& sum_gradient);

ThreeTensors head_norm(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                       bool unit_offset, bool centered, double epsilon);
ThreeTensors head_norm_backward(const at::Tensor& gradient, const at::Tensor& x,
                                const OptionalTensor& mean, const at::Tensor& inverse,
                                const at::Tensor& weight, bool unit_offset, bool has_bias);

}  // namespace colossal::ops::aten_fallback
