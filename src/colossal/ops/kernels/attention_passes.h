// What attention does to a block of scores between its products, where the block becomes bf16.
#pragma once

#include "colossal/ops/kernels/vector_kernels.h"

namespace colossal::ops::kernels {

// As the members of VectorKernels of these names; `pairs` and `halves` must be given.
struct AttentionPasses {
  decltype(VectorKernels::attention_probabilities) probabilities;
  decltype(VectorKernels::attention_gradients) gradients;
  decltype(VectorKernels::soft_cap) soft_cap;
};

// By fused multiply-adds and the CPU's own conversions to bf16 (AVX-512 BF16), which take numbers
// below the smallest normal one for 0: other bits than vector_kernels() gives, in less than half
// the time. Null where the build or this CPU has none such.
const AttentionPasses* native_bf16_attention_passes();

// The native ones, or those of vector_kernels().
AttentionPasses bf16_attention_passes();

}  // namespace colossal::ops::kernels
