#include "colossal/ops/kernels/vector_kernels.h"

#include "colossal/ops/kernels/variants.h"

namespace colossal::ops::kernels {

const VectorKernels* vector_kernels(InstructionSet instruction_set) {
  if (instruction_set > widest_instruction_set()) return nullptr;
#if defined(__x86_64__)
  if (instruction_set == InstructionSet::avx512) return &avx512_variant();
  if (instruction_set == InstructionSet::avx2) return &avx2_variant();
#endif
  return &baseline_variant();
}

const VectorKernels& vector_kernels() {
  static const VectorKernels& widest = *vector_kernels(widest_instruction_set());
  return widest;
}

}  // namespace colossal::ops::kernels
