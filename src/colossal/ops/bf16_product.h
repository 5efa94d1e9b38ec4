// Products of bf16 matrices on the CPU, in cache-sized blocks. They accumulate in fp32 where
// LibTorch's operators round each product to bf16, and are faster than LibTorch's on CPUs with bf16
// vector instructions. Dispatcher operators, with implementations for meta. Results are
// bit-identical for any number of threads.
//
// a [m, k] and b [k, n]; an operand that is dense along neither dim is copied. They use LibTorch's
// block kernel if its self-test passes (bf16_block.h), else products in fp32.
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// sum [m, n] fp32, dense <- a b; with `add`: sum + a b.
void summed_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum, bool add);

// to [m, n] bf16, dense along n <- factor * a b + bias, rounded once, block by block. The whole
// result exists in fp32 only if k is very large (a vocabulary). bias [n]; undefined: no bias.
// factor: one element; undefined: 1.
void rounded_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to,
                     const at::Tensor& bias = {}, const at::Tensor& factor = {});

}  // namespace colossal::ops
