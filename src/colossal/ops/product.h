// Matrix products of any type on any device, by the fastest implementation available.
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// Returns a b + bias, [m, n]. a: [m, k]; b: [k, n]; bias: [n], undefined: none. None of the
// functions here is differentiable.
at::Tensor product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias = {});

// to <- a b + bias. to: [m, n], with dense rows.
void product_out(at::Tensor to, const at::Tensor& a, const at::Tensor& b,
                 const at::Tensor& bias = {});

// sum += a b. sum: [m, n], of the type of a and b or wider. If it is wider, contiguous and on the
// CPU or on meta, the product is not rounded to the type of a before it is added.
void add_matrix_product(at::Tensor sum, const at::Tensor& a, const at::Tensor& b);

}  // namespace colossal::ops
