// Kernels that attention applies to a block of scores between its two matrix products, with results
// in bf16.
#pragma once

#include "colossal/ops/kernels/vector_kernels.h"

namespace colossal::ops::kernels {

// The members of VectorKernels with these names; their arguments `pairs` and `halves` must not be
// null.
struct AttentionPasses {
  decltype(VectorKernels::attention_probabilities) probabilities;
  decltype(VectorKernels::attention_gradients) gradients;
  decltype(VectorKernels::soft_cap) soft_cap;
};

// Returns passes that use fused multiply-adds and the CPU's own conversions to bf16 (AVX-512 BF16).
// Their bits differ from those of vector_kernels(), and they take less than half the time; the
// conversions flush subnormal numbers to 0. Null if the build or this CPU does not support them.
const AttentionPasses* native_bf16_attention_passes();

// Returns the native passes if available, else those of vector_kernels().
AttentionPasses bf16_attention_passes();

}  // namespace colossal::ops::kernels
