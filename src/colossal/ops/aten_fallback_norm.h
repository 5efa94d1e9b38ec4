// Dispatcher operators of layer norm and RMS norm that call only LibTorch's operators, for devices
// such as GPUs; see aten_fallback.h. Arguments have the meaning that they have in norm_passes.h,
// norm.h and head_norm.h. For an OptionalTensor, nullopt and an undefined tensor both mean that
// there is none.
//
// Below, `centered` distinguishes layer norm (true) from RMS norm (false). mean: [rows], undefined
// for RMS norm. inverse: [rows], 1 / sqrt(variance + epsilon), with the mean square in the place of
// the variance for RMS norm. rows: the product of all dims of x except the last.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace colossal::ops::aten_fallback {

using OptionalTensor = std::optional<at::Tensor>;
using TwoTensors = std::tuple<at::Tensor, at::Tensor>;
using ThreeTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using FourTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// Returns {x + branch, sums}; the first is undefined if there is no branch. sums: [rows], the sum
// over the features of each row of x + branch, or of x if there is no branch. If `mean` is given,
// a row's mean is subtracted from its elements before the sum. If `squared`, the elements' squares
// are summed instead of the elements.
TwoTensors norm_sums(const at::Tensor& x, const OptionalTensor& branch, const OptionalTensor& mean,
                     bool squared);
// Returns weight * (x - mean) * inverse + bias, in x's type and shape. unit_offset: the factor is 1
// + weight instead of weight.
at::Tensor normalize(const at::Tensor& x, const OptionalTensor& mean, const at::Tensor& inverse,
                     const OptionalTensor& weight, const OptionalTensor& bias, bool unit_offset);
// Returns {x + branch, output, mean, inverse}. The first is undefined if there is no branch, and
// mean is undefined unless centered.
FourTensors norm(const at::Tensor& x, const OptionalTensor& branch, const OptionalTensor& weight,
                 const OptionalTensor& bias, bool unit_offset, bool centered, double epsilon);
// Returns the members of NormGradientSums (norm_passes.h): {sums, weight_gradient, bias_gradient}.
// given_gradient: of the norm's output.
ThreeTensors norm_gradient_sums(const at::Tensor& given_gradient, const at::Tensor& x,
                                const OptionalTensor& mean, const at::Tensor& inverse,
                                const OptionalTensor& weight, bool unit_offset);
// Returns the gradient of x; see norm_input_gradient() of norm_passes.h.
at::Tensor norm_input_gradient(const at::Tensor& gradient, const at::Tensor& x,
                               const OptionalTensor& mean, const at::Tensor& inverse,
                               const OptionalTensor& weight, bool unit_offset,
                               const at::Tensor& means, const OptionalTensor& sum_gradient);
// Returns the gradients of {x, weight, bias}. gradient: of the norm's output. sum_gradient: the
// gradient of x + branch that comes through the residual stream; it is added to the gradient of x.
// The weight's gradient is undefined if there is no weight; the bias's gradient is undefined if
// there is no weight or no mean.
ThreeTensors norm_backward(const at::Tensor& gradient, const at::Tensor& x,
                           const OptionalTensor& mean, const at::Tensor& inverse,
                           const OptionalTensor& weight, bool unit_offset,
                           const OptionalTensor& sum_gradient);

// Returns {output, mean, inverse}. mean, inverse: [tokens * normalized heads]; mean is undefined
// unless centered.
ThreeTensors head_norm(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                       bool unit_offset, bool centered, double epsilon);
// Returns the gradients of {x, weight, bias}; the last is undefined unless has_bias. gradient: of
// the output.
ThreeTensors head_norm_backward(const at::Tensor& gradient, const at::Tensor& x,
                                const OptionalTensor& mean, const at::Tensor& inverse,
                                const at::Tensor& weight, bool unit_offset, bool has_bias);

}  // namespace colossal::ops::aten_fallback
