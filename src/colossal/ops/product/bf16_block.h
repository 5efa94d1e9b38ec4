// Products of small bf16 matrices with the CPU's bf16 instructions (AVX-512 BF16 or AMX). The
// kernel is oneDNN's, which LibTorch contains. bf16_product.h and flash_attention.h build larger
// computations from such products.
#pragma once

#include <c10/util/BFloat16.h>

#include <cstdint>

namespace colossal::ops {

// Computes c <- a b, or c <- c + a b if `add`.
//   a  [m, k] bf16
//   b  [k, n] bf16 in the "VNNI" layout: rows 2 i and 2 i + 1 are interleaved, which makes the
//      shape [k / 2, n, 2]. k must be even
//   c  [m, n] fp32
// Strides are distances between rows, in elements. b_stride is the distance before interleaving, so
// pairs of rows are 2 * b_stride elements apart.
using Bf16Product = void (*)(int64_t m, int64_t n, int64_t k, int64_t a_stride, int64_t b_stride,
                             int64_t c_stride, bool add, const at::BFloat16* a,
                             const at::BFloat16* b, float* c);

// Returns the kernel; null if this CPU has no bf16 instructions or if a self-test of the kernel
// fails. The first call runs the self-test.
Bf16Product bf16_block_product();

// Releases the hardware state that the kernel sets for the calling thread (the configuration of the
// AMX tiles). A thread must call this after its last call of the kernel, before other work.
void release_bf16_block_product();

}  // namespace colossal::ops
