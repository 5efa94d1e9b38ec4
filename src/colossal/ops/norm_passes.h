// The steps of layer norm and RMS norm, as one function each, for ranks that shard the features of
// a token. Such ranks call a function that sums, all-reduce the sums, and call the next function.
// Ranks that hold whole tokens call norm.h instead. The functions run on any device and on meta.
// Autograd does not record them.
//
// Terms and parameters of all functions:
//   x             [.., features on this rank]
//   rows          the product of all dims of x except the last
//   mean          [rows]: the mean over the features of all ranks; undefined for RMS norm, which
//                 takes 0 as the mean
//   inverse       [rows]: 1 / sqrt(variance + epsilon), where variance is the mean of (x - mean)^2
//                 over the features of all ranks
//   n             the normalized input, (x - mean) * inverse, in the shape of x
//   weight, bias  [features on this rank], of x's type. Undefined: no factor, no addend
//   unit_offset   the factor of n is 1 + weight instead of weight (Gemma)
//   compute type  fp64 if x is fp64, otherwise fp32
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// Returns the type in which a norm saves mean and inverse for the backward pass. Layer norm
// (`centered`) saves them in x's type, as LibTorch does; RMS norm saves `inverse` in the compute
// type.
at::ScalarType norm_statistics_type(const at::Tensor& x, bool centered);

// Result of row_sums() and squared_deviations().
struct RowSums {
  at::Tensor added;  // x + branch, rounded to x's type; undefined if branch is undefined
  at::Tensor sums;   // [rows]: a sum over the features on this rank, in the compute type
};

// Add `branch`, a residual branch of x's shape, to x; an undefined `branch` adds nothing. Then
// row_sums() sums the elements of each row of the result, and squared_deviations() sums (element -
// mean)^2 of each row. Layer norm calls row_sums(x, branch), then squared_deviations() with
// RowSums::added in the place of x and without a branch. RMS norm calls only squared_deviations(),
// with x, branch and an undefined mean.
RowSums row_sums(const at::Tensor& x, const at::Tensor& branch);
RowSums squared_deviations(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& mean);

// Returns the output of the norm, weight * n + bias, in x's type.
at::Tensor normalize(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& inverse,
                     const at::Tensor& weight, const at::Tensor& bias, bool unit_offset = false);

// First step of the backward pass. Let u be the output's gradient times the factor of n, which is
// weight, 1 + weight, or 1 if weight is undefined.
struct NormGradientSums {
  // [2, rows] if mean is defined, otherwise [1, rows], in the compute type. Sums over the features
  // on this rank: row 0 has the sums of u * n, row 1 the sums of u.
  at::Tensor sums;
  at::Tensor weight_gradient;  // [features on this rank]; undefined if weight is undefined
  at::Tensor bias_gradient;    // the same shape; undefined if mean or weight is undefined
};
// gradient: of the norm's output, in x's shape.
NormGradientSums norm_gradient_sums(const at::Tensor& gradient, const at::Tensor& x,
                                    const at::Tensor& mean, const at::Tensor& inverse,
                                    const at::Tensor& weight, bool unit_offset = false);

// Second step of the backward pass: returns the gradient of x.
//   gradient      of the norm's output
//   means         NormGradientSums::sums, summed over all ranks and divided by the number of
//                 features of all ranks
//   sum_gradient  added to the result. If the norm's input was x + branch, this is the gradient
//                 that reaches the sum through the residual stream. Undefined: none
at::Tensor norm_input_gradient(const at::Tensor& gradient, const at::Tensor& x,
                               const at::Tensor& mean, const at::Tensor& inverse,
                               const at::Tensor& weight, bool unit_offset, const at::Tensor& means,
                               const at::Tensor& sum_gradient);

}  // namespace colossal::ops
