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

// Computes sum <- sum + a b. sum: [m, n], of the type of a and b, or in fp32 for bf16 operands. An
// fp32 `sum` that is contiguous and on the CPU gets the product without an intermediate rounding to
// bf16.
void add_matrix_product(at::Tensor sum, const at::Tensor& a, const at::Tensor& b);

}  // namespace colossal::ops
