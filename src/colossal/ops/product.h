// Matrix products of any type on any device, by the fastest implementation available.
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// Returns a b + bias, [m, n]. a [m, k], b [k, n], bias [n]; bias undefined: none. Not
// differentiable.
at::Tensor product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias = {});

// to <- a b + bias. to: [m, n] with dense rows.
void product_out(at::Tensor to, const at::Tensor& a, const at::Tensor& b,
                 const at::Tensor& bias = {});

// sum [m, n] += a b. If sum has a wider type, the product is not rounded before it is added.
void add_matrix_product(at::Tensor sum, const at::Tensor& a, const at::Tensor& b);

}  // namespace colossal::ops
