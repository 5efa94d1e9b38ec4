// What attention does to a block of scores between its two products, if the block becomes bf16.
#pragma once

#include "colossal/ops/kernels/vector_kernels.h"

namespace colossal::ops::kernels {

// The members of VectorKernels with these names; `pairs` and `halves` must be given.
struct AttentionPasses {
  decltype(VectorKernels::attention_probabilities) probabilities;
  decltype(VectorKernels::attention_gradients) gradients;
  decltype(VectorKernels::soft_cap) soft_cap;
};

// Returns passes that use fused multiply-adds and the CPU's own conversions to bf16 (AVX-512 BF16).
// They give other bits than vector_kernels(), in less than half the time: conversions take numbers
// below the smallest normal one for 0. Null if the build or this CPU has no such instructions.
const AttentionPasses* native_bf16_attention_passes();

// The native ones, or those of vector_kernels().
AttentionPasses bf16_attention_passes();

}  // namespace colossal::ops::kernels
