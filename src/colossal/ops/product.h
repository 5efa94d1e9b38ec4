// Products of matrices of any type on any device, by the fastest way there.
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// a [m, k], b [k, n], bias [n] or undefined for none -> a b + bias, [m, n]. Without gradients.
at::Tensor product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias = {});

// The same into `to`, whose rows are dense.
void product_out(at::Tensor to, const at::Tensor& a, const at::Tensor& b,
                 const at::Tensor& bias = {});

// sum [m, n] += a b; the sum may be of a wider type, and is not rounded in between then.
void add_matrix_product(at::Tensor sum, const at::Tensor& a, const at::Tensor& b);

}  // namespace colossal::ops
