// Matrix products by LibTorch, whose scratch memory dry runs count.
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// On the CPU, oneDNN computes LibTorch's products in bf16. It copies operands into another order
// and keeps tiles of results, in scratch memory that it allocates for the time of the product. Both
// functions allocate and release as much for tensors on meta, so that a dry run counts it.
// Exception: products of more than 2^26 multiplications, or with more than 2^22 numbers in one
// operand or in the result, beside which the scratch is small (docs/plan.md). Neither is
// differentiable.

// to [m, n] <- a [m, k] b [k, n] + bias, all of one type. bias: [n]; undefined: none.
void libtorch_product_out(at::Tensor to, const at::Tensor& a, const at::Tensor& b,
                          const at::Tensor& bias = {});

// sum [m, n] += factor * a [m, k] b [k, n], all of one type.
void add_libtorch_product(at::Tensor sum, const at::Tensor& a, const at::Tensor& b,
                          double factor = 1);

}  // namespace colossal::ops
