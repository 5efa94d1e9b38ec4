// Products of bf16 matrices on the CPU, in blocks that stay in its caches: summed in fp32, where
// LibTorch's operators round each product to bf16, and faster than those where the CPU multiplies
// bf16 vectors. Operators, with rules for meta. The same bits for any number of threads.
//
// a [m, k] and b [k, n], each dense along one dimension or else copied. They use LibTorch's block
// kernel where it has been seen to work, else fp32 products.
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// sum [m, n] fp32, dense <- a b, with `add` sum + a b.
void summed_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum, bool add);

// to [m, n] bf16, dense along n <- factor * a b + bias, rounded once, block by block: it is whole
// in fp32 only where k is very large (a vocabulary). bias [n]: undefined for none; factor: one
// number.
void rounded_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to,
                     const at::Tensor& bias = {}, const at::Tensor& factor = {});

}  // namespace colossal::ops
