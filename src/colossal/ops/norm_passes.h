// The separate passes over rows of which a norm consists, for callers that communicate between
// passes: ranks that shard a token's features all-reduce the row sums. Not differentiable. On any
// device and on meta.
//
// x: [.., features on this rank]; n = (x - mean) * inverse denotes a normalized row. mean, inverse:
// [rows] in the compute type (fp64 for fp64, else fp32); an undefined mean is 0 (RMS norm). weight,
// bias, unit_offset: as in norm.h.
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// Returns the type of the statistics that are saved for the backward pass: x's type for layer norm
// (`centered`), as LibTorch saves them (docs/activations.md counts their bytes); the compute type
// for RMS norm.
at::ScalarType norm_statistics_type(const at::Tensor& x, bool centered);

struct RowSums {
  at::Tensor added;  // x + branch, rounded to x's type; undefined if there is no branch
  at::Tensor sums;   // [rows], in the compute type
};

// Return row sums: of x + branch (branch undefined: of x), or of the squared deviations of x +
// branch from the mean.
RowSums row_sums(const at::Tensor& x, const at::Tensor& branch);
RowSums squared_deviations(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& mean);

// Returns weight * n + bias, in x's type.
at::Tensor normalize(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& inverse,
                     const at::Tensor& weight, const at::Tensor& bias, bool unit_offset = false);

// Sums needed for the gradients. u: the output gradient times the factor on n (weight, 1 + weight
// or 1).
struct NormGradientSums {
  at::Tensor sums;             // [1 or 2, rows]: of u * n and, if `mean` is defined, of u
  at::Tensor weight_gradient;  // undefined if `weight` is
  at::Tensor bias_gradient;    // undefined if `mean` or `weight` is
};
NormGradientSums norm_gradient_sums(const at::Tensor& gradient, const at::Tensor& x,
                                    const at::Tensor& mean, const at::Tensor& inverse,
                                    const at::Tensor& weight, bool unit_offset = false);

// Returns the gradient of x. means: norm_gradient_sums().sums over all ranks, divided by the number
// of features of all ranks. sum_gradient is added to the result: the gradient that reaches x +
// branch directly, through the residual stream (undefined: none).
at::Tensor norm_input_gradient(const at::Tensor& gradient, const at::Tensor& x,
                               const at::Tensor& mean, const at::Tensor& inverse,
                               const at::Tensor& weight, bool unit_offset, const at::Tensor& means,
                               const at::Tensor& sum_gradient);

}  // namespace colossal::ops
