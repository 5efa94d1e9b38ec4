// Matrix products by LibTorch. A dry run also counts the scratch memory that they need.
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// The two functions below call LibTorch. They are not differentiable.
//
// On a CPU with instructions for bf16, oneDNN computes LibTorch's products in bf16. It copies
// operands into another order and keeps tiles of results, in scratch memory that it allocates for
// the time of the product. For bf16 tensors on meta, the functions allocate and release as many
// bytes of meta memory, so that a dry run counts the scratch. They allocate nothing for large
// products, where the scratch is small beside the operands: more than 2^26 multiplications, or an
// operand or result that spans more than 2^22 numbers (docs/plan.md).

// to [m, n] <- a [m, k] b [k, n] + bias, all of one type. bias: [n]; undefined: none.
void libtorch_product_out(at::Tensor to, const at::Tensor& a, const at::Tensor& b,
                          const at::Tensor& bias = {});

// sum [m, n] += factor * a [m, k] b [k, n], all of one type. On a GPU, `sum` may also be fp32 and
// the operands bf16 or fp16; the product is then not rounded before it is added.
void add_libtorch_product(at::Tensor sum, const at::Tensor& a, const at::Tensor& b,
                          double factor = 1);

}  // namespace colossal::ops
