// The attention kernels of VectorKernels for bf16 attention, in the fastest variant for this CPU.
// The blocks of scores are in fp32, the probabilities and gradients of the scores in bf16.
#pragma once

#include "colossal/ops/kernels/vector_kernels.h"

namespace colossal::ops::kernels {

// Three kernels with the parameters of VectorKernels::attention_probabilities(),
// attention_gradients() and soft_cap() (vector_kernels.h). In the kernels that the functions below
// return, the parameter `block` must be of type float32. The parameter `pairs` of probabilities()
// and the parameter `halves` of gradients() must not be null: the results in bf16 are written to
// them.
struct AttentionPasses {
  decltype(VectorKernels::attention_probabilities) probabilities;
  decltype(VectorKernels::attention_gradients) gradients;
  decltype(VectorKernels::soft_cap) soft_cap;
};

// Returns kernels that use fused multiply-adds and the CPU's instructions for conversion to bf16
// (AVX-512 BF16). They take less than half the time of the kernels of vector_kernels(). The
// results have other bits than those of vector_kernels(), and subnormal numbers count as 0. Returns
// null if the build or this CPU does not support them.
const AttentionPasses* native_bf16_attention_passes();

// Returns native_bf16_attention_passes() if that is not null, otherwise the kernels of
// vector_kernels().
AttentionPasses bf16_attention_passes();

}  // namespace colossal::ops::kernels
