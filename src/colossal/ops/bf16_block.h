// The product of small bf16 matrices by bf16 instructions, as LibTorch's oneDNN has it.
#pragma once

#include <c10/util/BFloat16.h>

#include <cstdint>

namespace colossal::ops {

// c [m, n] fp32 <- (add ? c : 0) + a b; a [m, k], b [k / 2, n, 2] bf16: rows of b interleaved in
// pairs ("VNNI"), so that k is even. Strides in elements, b's of its unpaired rows.
using Bf16Product = void (*)(int64_t m, int64_t n, int64_t k, int64_t a_stride, int64_t b_stride,
                             int64_t c_stride, bool add, const at::BFloat16* a,
                             const at::BFloat16* b, float* c);

// Returns null if the product has not been seen to work here.
Bf16Product bf16_block_product();

// A thread that has multiplied calls this before it does other work.
void release_bf16_block_product();

}  // namespace colossal::ops
