// Matrix products of any floating type on any device and on meta. Each function chooses the fastest
// implementation: tile_product.h, bf16_product.h or LibTorch. Autograd does not record them.
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// Returns a b + bias, [m, n]. a: [m, k]; b: [k, n]; bias: [n], or undefined for no bias. All are of
// one type.
at::Tensor product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias = {});

// Computes to <- a b + bias, with a, b and bias as for product(). to: [m, n], of a's type, with
// contiguous rows.
void product_out(at::Tensor to, const at::Tensor& a, const at::Tensor& b,
                 const at::Tensor& bias = {});

// Computes sum <- sum + a b. sum: [m, n], of the type of a and b; for bf16 a and b, it may be fp32.
// To an fp32 `sum` that is contiguous and on the CPU, the product of bf16 operands is added without
// being rounded to bf16. To any other fp32 `sum`, it may be added rounded to bf16.
void add_matrix_product(at::Tensor sum, const at::Tensor& a, const at::Tensor& b);

}  // namespace colossal::ops
