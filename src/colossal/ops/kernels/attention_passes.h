// The attention kernels of VectorKernels for bf16 attention, in the fastest variant for this CPU.
// The blocks of scores are in fp32, the results in bf16.
#pragma once

#include "colossal/ops/kernels/vector_kernels.h"

namespace colossal::ops::kernels {

// Three kernels with the parameters of VectorKernels::attention_probabilities(),
// attention_gradients() and soft_cap(). Those returned by the functions below require blocks of
// type float32, and `pairs` and `halves` that are not null.
struct AttentionPasses {
  decltype(VectorKernels::attention_probabilities) probabilities;
  decltype(VectorKernels::attention_gradients) gradients;
  decltype(VectorKernels::soft_cap) soft_cap;
};

// Returns kernels that use fused multiply-adds and the CPU's instructions for conversion to bf16
// (AVX-512 BF16). They take less than half the time of the kernels of vector_kernels(). Their
// results have other bits; subnormal numbers count as 0. Returns null if the build or this CPU does
// not support them.
const AttentionPasses* native_bf16_attention_passes();

// Returns native_bf16_attention_passes() if that is not null, otherwise the kernels of
// vector_kernels().
AttentionPasses bf16_attention_passes();

}  // namespace colossal::ops::kernels
