// Products of bf16 matrices on the CPU, computed in blocks that fit into the caches. product.h
// calls rounded_product() where it is faster than LibTorch's product. summed_product() keeps the
// sums in fp32, which LibTorch's operators would round to bf16. Both functions are dispatcher
// operators with implementations for the CPU and meta. Results are bit-identical for any number of
// threads.
//
// Operands: a [m, k] and b [k, n], both bf16. An operand that is contiguous along neither dim is
// copied first. On CPUs with bf16 instructions, both functions multiply blocks with the kernel
// that bf16_block_product() (bf16_block.h) returns; on other CPUs they convert the operands to
// fp32. Autograd does not record these products.
#pragma once

#include <ATen/core/Tensor.h>

namespace colossal::ops {

// Computes sum <- a b; with `add`, sum <- sum + a b. sum: [m, n] fp32, contiguous.
void summed_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum, bool add);

// Computes to <- factor * a b + bias in fp32, and rounds the result once.
//   to      [m, n] bf16, contiguous along n. Throws InternalError otherwise
//   bias    [n] bf16; undefined: no bias
//   factor  a tensor with one element, which is read on the host; undefined: 1
// On CPUs with bf16 instructions, sums are rounded block by block; only if k is above 8192, as for
// a vocabulary, the whole result [m, n] exists in fp32 before it is rounded. On other CPUs, up to
// 4096 rows of the result exist in fp32 at a time.
void rounded_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& to,
                     const at::Tensor& bias = {}, const at::Tensor& factor = {});

}  // namespace colossal::ops
