// A kernel of oneDNN, which LibTorch contains: products of small bf16 matrices with the CPU's bf16
// instructions.
#pragma once

#include <c10/util/BFloat16.h>

#include <cstdint>

namespace colossal::ops {

// c [m, n] fp32 <- (add ? c : 0) + a b. a: [m, k] bf16. b: [k / 2, n, 2] bf16, that is [k, n] with
// pairs of rows interleaved ("VNNI"); k must be even. Strides are between rows, in elements;
// b_stride is that of b before interleaving.
using Bf16Product = void (*)(int64_t m, int64_t n, int64_t k, int64_t a_stride, int64_t b_stride,
                             int64_t c_stride, bool add, const at::BFloat16* a,
                             const at::BFloat16* b, float* c);

// Returns the kernel; null if this CPU has no bf16 instructions or the kernel's self-test fails.
// The self-test runs once per process.
Bf16Product bf16_block_product();

// Releases the state that the kernel keeps for the calling thread. Each thread that has called the
// kernel must call this before it does other work.
void release_bf16_block_product();

}  // namespace colossal::ops
