#include "colossal/ops/kernels/block_product.h"

namespace colossal::ops::kernels {

const BlockProductKernels& baseline_product();
const BlockProductKernels& avx2_product();
const BlockProductKernels& avx512_product();

const BlockProductKernels* block_product_kernels(InstructionSet instruction_set) {
  if (instruction_set > widest_instruction_set()) return nullptr;
#if defined(__x86_64__)
  if (instruction_set == InstructionSet::avx512) return &avx512_product();
  if (instruction_set == InstructionSet::avx2) {
    return __builtin_cpu_supports("fma") ? &avx2_product() : nullptr;
  }
#endif
  return &baseline_product();
}

const BlockProductKernels& block_product_kernels() {
  static const BlockProductKernels* widest = block_product_kernels(widest_instruction_set());
  return widest ? *widest : baseline_product();
}

}  // namespace colossal::ops::kernels
