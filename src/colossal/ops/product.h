// Products of matrices of any type on any device, by the fastest way there.
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// a [m, k], b [k, n], bias [n] or undefined for none -> a b + bias, [m, n]. Without gradients.
at::Tensor product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias = {});

// The same into `to`, whose rows are dense.
void product_out(at::Tensor to, const at::Tensor& a, const at::Tensor& b,
                 const at::Tensor& bias = {});

}  // namespace colossal::ops
