#include "colossal/ops/kernels/paged_attention.h"

namespace colossal::ops::kernels {

PagedAttentionKernel baseline_paged();
PagedAttentionKernel avx2_paged();
PagedAttentionKernel avx512_paged();

PagedAttentionKernel paged_attention_kernel(InstructionSet instruction_set) {
  if (instruction_set > widest_instruction_set()) return nullptr;
#if defined(__x86_64__)
  if (instruction_set == InstructionSet::avx512) return avx512_paged();
  if (instruction_set == InstructionSet::avx2) {
    return __builtin_cpu_supports("fma") ? avx2_paged() : nullptr;
  }
#endif
  return baseline_paged();
}

PagedAttentionKernel paged_attention_kernel() {
  static const PagedAttentionKernel kWidest = paged_attention_kernel(widest_instruction_set());
  return kWidest ? kWidest : baseline_paged();
}

}  // namespace colossal::ops::kernels
