// The steps of layer norm and RMS norm, as one function each, for ranks that shard the features of
// a token. Such ranks call a function that sums, all-reduce the sums, compute means from them, and
// call the next function. Ranks that hold whole tokens call norm.h instead. The functions run on
// any device and on meta. Autograd does not record them.
//
// Terms and parameters of all functions:
//   compute type  fp64 if x is fp64, otherwise fp32
//   x             [.., features on this rank]
//   rows          the product of all dims of x except the last
//   mean          [rows]: the mean over the features of all ranks, which the caller computes from
//                 row_sums(); undefined for RMS norm, which takes 0 as the mean
//   inverse       [rows]: 1 / sqrt(variance + epsilon), where variance is the mean of (x - mean)^2
//                 over the features of all ranks; the caller computes it from
//                 squared_deviations(). mean and inverse may be in the compute type, like the sums
//                 from which they are computed, or rounded to x's type
//   n             the normalized input, (x - mean) * inverse, in the shape of x
//   weight        [features on this rank], of x's type: the factor of n. Undefined: the factor is 1
//   unit_offset   if true, the factor of n is 1 + weight instead of weight (Gemma)
//   bias          [features on this rank], of x's type: added to n times its factor. Undefined: 0.
//                 A bias requires a weight and a mean
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// Returns the type in which the norms of norm.h save mean and inverse for their backward pass.
// Layer norm (`centered`) saves them in x's type, as LibTorch does; RMS norm saves `inverse` in the
// compute type.
at::ScalarType norm_statistics_type(const at::Tensor& x, bool centered);

// Result of row_sums() and squared_deviations().
struct RowSums {
  at::Tensor added;  // x + branch, rounded to x's type; undefined if branch is undefined
  at::Tensor sums;   // [rows]: a sum over the features on this rank, in the compute type
};

// Add `branch`, a residual branch of x's shape, to x; an undefined `branch` adds nothing. Then
// row_sums() sums the elements of each row of the result, and squared_deviations() sums (element -
// mean)^2 of each row. Layer norm calls row_sums(x, branch), then squared_deviations() with an
// undefined branch and, in the place of x, with RowSums::added (x itself if there is no branch).
// RMS norm calls only squared_deviations(), with x, branch and an undefined mean. The functions
// below then take as x what was summed: RowSums::added, or x itself if there is no branch.
RowSums row_sums(const at::Tensor& x, const at::Tensor& branch);
RowSums squared_deviations(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& mean);

// Returns the output of the norm, in x's type: n times its factor, plus bias.
at::Tensor normalize(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& inverse,
                     const at::Tensor& weight, const at::Tensor& bias, bool unit_offset = false);

// Result of norm_gradient_sums(). Here u is the output's gradient times the factor of n.
struct NormGradientSums {
  // [2, rows] if mean is defined, otherwise [1, rows], in the compute type. Sums over the features
  // on this rank: row 0 has the sums of u * n, row 1 the sums of u.
  at::Tensor sums;
  // Sums over this rank's rows, [features on this rank], in x's type. weight_gradient is undefined
  // if weight is undefined; bias_gradient is undefined if mean or weight is undefined.
  at::Tensor weight_gradient;
  at::Tensor bias_gradient;
};
// First step of the backward pass. gradient: of the norm's output, in x's shape.
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
