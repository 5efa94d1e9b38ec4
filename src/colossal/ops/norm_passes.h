// The passes of which a norm consists, one function each. Ranks that shard a token's features must
// all-reduce row sums between two passes. The functions run on any device and on meta. Not recorded
// by autograd.
//
// x: [.., features on this rank]. inverse: 1 / sqrt(variance + epsilon). n = (x - mean) * inverse
// is a normalized row. mean, inverse: [rows], over the features of all ranks; an undefined mean
// means 0 (RMS norm). weight, bias, unit_offset: as in norm.h. The compute type is fp64 for fp64,
// else fp32.
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// Returns the type in which a norm saves mean and inverse for backward. For layer norm (`centered`)
// it is x's type, as in LibTorch; for RMS norm it is the compute type. docs/activations.md counts
// their bytes.
at::ScalarType norm_statistics_type(const at::Tensor& x, bool centered);

struct RowSums {
  at::Tensor added;  // x + branch, rounded to x's type; undefined if there is no branch
  at::Tensor sums;   // [rows], over the features on this rank, in the compute type
};

// row_sums() sums each row of s, squared_deviations() each row of (s - mean)^2, where s is x +
// branch, or x if branch is undefined.
RowSums row_sums(const at::Tensor& x, const at::Tensor& branch);
RowSums squared_deviations(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& mean);

// Returns weight * n + bias, in x's type.
at::Tensor normalize(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& inverse,
                     const at::Tensor& weight, const at::Tensor& bias, bool unit_offset = false);

// Sums that the gradients need. u is the output gradient times the factor of n: weight, 1 + weight,
// or 1 if weight is undefined.
struct NormGradientSums {
  at::Tensor sums;             // [1 or 2, rows]: of u * n and, if mean is defined, of u
  at::Tensor weight_gradient;  // undefined if weight is undefined
  at::Tensor bias_gradient;    // undefined if mean or weight is undefined
};
// gradient: of the output.
NormGradientSums norm_gradient_sums(const at::Tensor& gradient, const at::Tensor& x,
                                    const at::Tensor& mean, const at::Tensor& inverse,
                                    const at::Tensor& weight, bool unit_offset = false);

// Returns the gradient of x. gradient: of the output. means: norm_gradient_sums().sums, summed over
// all ranks and divided by the number of features of all ranks. sum_gradient: is added to the
// result; for x + branch it is the gradient that comes through the residual stream. Undefined:
// none.
at::Tensor norm_input_gradient(const at::Tensor& gradient, const at::Tensor& x,
                               const at::Tensor& mean, const at::Tensor& inverse,
                               const at::Tensor& weight, bool unit_offset, const at::Tensor& means,
                               const at::Tensor& sum_gradient);

}  // namespace colossal::ops
