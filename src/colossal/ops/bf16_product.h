// Products of bf16 matrices whose result is added or scaled in fp32, which LibTorch's operators
// cannot do: they round each product to bf16.
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// sum [m, n] fp32 <- a^T b, with `add` sum + a^T b; a [k, m] and b [k, n] bf16. All dense, on the
// CPU or meta. The same bits for any number of threads. Uses bf16 instructions where LibTorch's
// block kernel has been seen to work, else fp32 products. An operator, with a rule for meta.
void transposed_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum, bool add);

// factor * a^T b, rounded to bf16 once, where that product would be made: it is never whole in
// fp32. factor: one number, on the CPU or meta.
at::Tensor rounded_transposed_product(const at::Tensor& a, const at::Tensor& b,
                                      const at::Tensor& factor);

}  // namespace colossal::ops
