// Products of bf16 matrices on the CPU, in blocks that fit into its caches. summed_product()
// returns sums in fp32, where LibTorch's operators would round each product to bf16. On CPUs with
// bf16 vector instructions both functions are faster than LibTorch's products. They are dispatcher
// operators, with implementations for meta. Results are bit-identical for any number of threads.
//
// a: [m, k]; b: [k, n]. An operand that is dense along neither dim is copied first. Both functions
// use bf16_block_product() if it is not null; otherwise they convert to fp32.
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// sum <- a b; with `add`, sum <- sum + a b. sum: [m, n] fp32, dense.
void summed_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum, bool add);

// to <- factor * a b + bias, computed in fp32 and rounded once. to: [m, n] bf16, dense along n.
// Rounds block by block; only for a very large k, such as a vocabulary, the whole result exists in
// fp32 first. bias: [n]; undefined: none. factor: one element; undefined: 1.
void rounded_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to,
                     const at::Tensor& bias = {}, const at::Tensor& factor = {});

}  // namespace colossal::ops
