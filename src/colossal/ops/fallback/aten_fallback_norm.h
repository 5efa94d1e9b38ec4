// Dispatcher operators of layer norm and RMS norm that call only LibTorch's operators, for devices
// such as GPUs; see aten_fallback.h. The public functions that call them are in norm_passes.h,
// norm.h and head_norm.h. For an OptionalTensor, nullopt and an undefined tensor both mean that
// there is none.
//
// A norm computes n * factor + bias, where n = (x - mean) * inverse is the normalized input. `rows`
// is the product of all dims of x except the last. The compute type is fp64 if x is fp64, otherwise
// fp32. head_norm() normalizes heads instead of rows; its own comment describes its parameters. The
// parameters of the other functions:
//   x             [.., features on this rank]. norm() and norm_backward() require all features;
//                 the other functions also serve ranks that shard the features
//   branch        a residual branch, in x's shape; x + branch is then normalized instead of x, and
//                 takes the place of x in the formulas. none: x is normalized. The functions
//                 without this parameter get x + branch as x
//   mean          [rows]: the mean over all features; none for RMS norm, which takes 0 as the mean
//   inverse       [rows]: 1 / sqrt(variance + epsilon), where variance is the mean of (x - mean)^2
//                 over all features. As arguments, mean and inverse may be of any floating type;
//                 as results, their types are given below
//   weight        [features on this rank]: the factor; none: the factor is 1
//   unit_offset   true: the factor is 1 + weight
//   bias          [features on this rank]; none: 0. A layer norm with a weight may have a bias;
//                 other norms have none
//   centered      true: layer norm; false: RMS norm
// In the backward pass, u is the gradient of the norm's output times the factor.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace colossal::ops::aten_fallback {

using OptionalTensor = std::optional<at::Tensor>;
using TwoTensors = std::tuple<at::Tensor, at::Tensor>;
using ThreeTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using FourTensors = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// Returns {x + branch, sums}; the first is undefined if there is no branch. sums: [rows] in the
// compute type: of each row of x + branch (of x if there is no branch), the sum over the features
// on this rank. If `mean` is given, a row's mean is first subtracted from its elements. If
// `squared`, the squares (of the differences) are summed instead.
TwoTensors norm_sums(const at::Tensor& x, const OptionalTensor& branch, const OptionalTensor& mean,
                     bool squared);
// Returns n * factor + bias, in x's type and shape.
at::Tensor normalize(const at::Tensor& x, const OptionalTensor& mean, const at::Tensor& inverse,
                     const OptionalTensor& weight, const OptionalTensor& bias, bool unit_offset);
// The whole forward pass. Returns {x + branch, output, mean, inverse}; `output` is the norm of x +
// branch. The first is undefined if there is no branch, and mean is undefined unless centered. mean
// and inverse are of the type in which they are saved for the backward pass: x's type if centered,
// otherwise the compute type.
FourTensors norm(const at::Tensor& x, const OptionalTensor& branch, const OptionalTensor& weight,
                 const OptionalTensor& bias, bool unit_offset, bool centered, double epsilon);
// First step of the backward pass. Returns {sums, weight_gradient, bias_gradient}.
//   sums             [2, rows] in the compute type: the sums over the features on this rank of
//                    u * n and of u; without a mean only the first, [1, rows]
//   weight_gradient  [features on this rank] in x's type, summed over the rows; undefined if
//                    there is no weight
//   bias_gradient    likewise; undefined if there is no weight or no mean
// given_gradient: of the norm's output.
ThreeTensors norm_gradient_sums(const at::Tensor& given_gradient, const at::Tensor& x,
                                const OptionalTensor& mean, const at::Tensor& inverse,
                                const OptionalTensor& weight, bool unit_offset);
// Second step of the backward pass. Returns the gradient of x: (u - n * means[0] - means[1]) *
// inverse + sum_gradient, without means[1] if there is no mean.
//   gradient      of the norm's output
//   means         `sums` of norm_gradient_sums(), which the caller has summed over all ranks and
//                 divided by the number of all features
//   sum_gradient  if x is the sum of a residual stream and a branch: the gradient that reaches this
//                 sum through the residual stream; none: 0
at::Tensor norm_input_gradient(const at::Tensor& gradient, const at::Tensor& x,
                               const OptionalTensor& mean, const at::Tensor& inverse,
                               const OptionalTensor& weight, bool unit_offset,
                               const at::Tensor& means, const OptionalTensor& sum_gradient);
// Both steps of the backward pass. Returns the gradients of {x, weight, bias}. gradient,
// sum_gradient: as for norm_input_gradient(). The last two results are undefined in the same cases
// as those of norm_gradient_sums().
ThreeTensors norm_backward(const at::Tensor& gradient, const at::Tensor& x,
                           const OptionalTensor& mean, const at::Tensor& inverse,
                           const OptionalTensor& weight, bool unit_offset,
                           const OptionalTensor& sum_gradient);

// The norm of attention heads. x: [.., heads, head_size]. weight, bias: [normalized heads,
// head_size]. Each of the first heads, as many as `weight` has, is normalized over its head_size
// channels; the other heads are copied. bias: none: no addend. unit_offset, centered: as above.
// Returns {output, mean, inverse}. output: in x's shape and type. mean, inverse: [tokens *
// normalized heads] in the compute type, where `tokens` is the product of the dims of x before the
// last two; mean is undefined unless centered.
ThreeTensors head_norm(const at::Tensor& x, const at::Tensor& weight, const OptionalTensor& bias,
                       bool unit_offset, bool centered, double epsilon);
// Returns the gradients of {x, weight, bias}; the last is undefined unless has_bias. gradient: of
// the output of head_norm(). mean, inverse: results of head_norm().
ThreeTensors head_norm_backward(const at::Tensor& gradient, const at::Tensor& x,
                                const OptionalTensor& mean, const at::Tensor& inverse,
                                const at::Tensor& weight, bool unit_offset, bool has_bias);

}  // namespace colossal::ops::aten_fallback
