// Kernel for products of small bf16 matrices with the CPU's bf16 instructions, from LibTorch's
// oneDNN.
#pragma once

#include <c10/util/BFloat16.h>

#include <cstdint>

namespace colossal::ops {

// c [m, n] fp32 <- (add ? c : 0) + a b; a [m, k] bf16; b [k / 2, n, 2] bf16, with pairs of rows
// interleaved ("VNNI"), so k must be even. Strides in elements; b_stride is that of b before
// interleaving.
using Bf16Product = void (*)(int64_t m, int64_t n, int64_t k, int64_t a_stride, int64_t b_stride,
                             int64_t c_stride, bool add, const at::BFloat16* a,
                             const at::BFloat16* b, float* c);

// Returns the kernel, or null if its self-test fails on this CPU (it is run once).
Bf16Product bf16_block_product();

// Releases the kernel's state of the calling thread. Each thread that has called the kernel calls
// this before it does other work.
void release_bf16_block_product();

}  // namespace colossal::ops
