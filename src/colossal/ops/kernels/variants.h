// The tables of kernels from which vector_kernels() (vector_kernels.h) chooses, one for each
// instruction set. Only vector_kernels() calls these functions. It first checks that the CPU has
// the instruction set. avx2_variant() and avx512_variant() exist in builds for x86-64 only.
#pragma once

#include "colossal/ops/kernels/vector_kernels.h"

namespace colossal::ops::kernels {

const VectorKernels& baseline_variant();
const VectorKernels& avx2_variant();
const VectorKernels& avx512_variant();

}  // namespace colossal::ops::kernels
