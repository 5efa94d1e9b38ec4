// The tables of kernels from which vector_kernels() chooses, one for each instruction set. Call a
// kernel only on a CPU that has the instruction set.
#pragma once

#include "colossal/ops/kernels/vector_kernels.h"

namespace colossal::ops::kernels {

const VectorKernels& baseline_variant();
const VectorKernels& avx2_variant();
const VectorKernels& avx512_variant();

}  // namespace colossal::ops::kernels
