// The tables that vector_kernels() chooses from.
#pragma once

#include "colossal/ops/kernels/vector_kernels.h"

namespace colossal::ops::kernels {

const VectorKernels& baseline_variant();
const VectorKernels& avx2_variant();
const VectorKernels& avx512_variant();

}  // namespace colossal::ops::kernels
