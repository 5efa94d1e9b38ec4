// The passes over rows that make up a norm, for callers that do something between them: ranks that
// share a token's features add up their sums. Without gradients, on any device and on meta.
//
// Rows x [.., features here]; a row's n = (x - mean) * inverse. mean, inverse [rows] of the type
// computed with (fp64 for fp64, else fp32); mean undefined: 0, an RMS norm's. weight, bias,
// unit_offset: as norm.h has them.
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// Returns the type of the statistics that are kept for the backward pass. A layer norm's two are in
// x's type, as LibTorch keeps them (docs/activations.md counts their bytes); an RMS norm's is in
// the type computed with.
at::ScalarType norm_statistics_type(const at::Tensor& x, bool centered);

struct RowSums {
  at::Tensor added;  // x + branch, rounded to x's type; undefined without a branch
  at::Tensor sums;   // [rows], of the type computed with
};

// Return the sums of x + branch (undefined: x alone), or of the squares of its distances from the
// mean.
RowSums row_sums(const at::Tensor& x, const at::Tensor& branch);
RowSums squared_deviations(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& mean);

// weight * n + bias, of x's type.
at::Tensor normalize(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& inverse,
                     const at::Tensor& weight, const at::Tensor& bias, bool unit_offset = false);

// u: the gradient times what n is multiplied by.
struct NormGradientSums {
  at::Tensor sums;             // [1 or 2, rows]: of u * n and, where a mean is given, of u
  at::Tensor weight_gradient;  // undefined without a weight
  at::Tensor bias_gradient;    // undefined without a mean or a weight
};
NormGradientSums norm_gradient_sums(const at::Tensor& gradient, const at::Tensor& x,
                                    const at::Tensor& mean, const at::Tensor& inverse,
                                    const at::Tensor& weight, bool unit_offset = false);

// Returns the gradient of x from the means over all features of what norm_gradient_sums() sums,
// plus `sum_gradient`, which reaches x otherwise than by its norm (undefined: none).
at::Tensor norm_input_gradient(const at::Tensor& gradient, const at::Tensor& x,
                               const at::Tensor& mean, const at::Tensor& inverse,
                               const at::Tensor& weight, bool unit_offset, const at::Tensor& means,
                               const at::Tensor& sum_gradient);

}  // namespace colossal::ops
