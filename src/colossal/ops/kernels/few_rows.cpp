#include "colossal/ops/kernels/few_rows.h"

namespace colossal::ops::kernels {

const RowsKernels& baseline_few_rows();
const RowsKernels& avx2_few_rows();
const RowsKernels& avx512_few_rows();
void avx512_bf16_rows(const RowsProduct& product, int64_t begin, int64_t end);

namespace {

RowsKernels fastest_rows() {
  const RowsKernels* widest = rows_kernels(widest_instruction_set());
  RowsKernels kernels = widest ? *widest : baseline_few_rows();
  if (const MultiplyRows native = native_bf16_rows()) kernels.bfloat16 = native;
  return kernels;
}

}  // namespace

const RowsKernels* rows_kernels(InstructionSet instruction_set) {
  if (instruction_set > widest_instruction_set()) return nullptr;
#if defined(__x86_64__)
  if (instruction_set == InstructionSet::avx512) return &avx512_few_rows();
  if (instruction_set == InstructionSet::avx2) {
    return __builtin_cpu_supports("fma") ? &avx2_few_rows() : nullptr;
  }
#endif
  return &baseline_few_rows();
}

MultiplyRows native_bf16_rows() {
#if defined(__x86_64__)
  if (has_avx512_bf16()) return avx512_bf16_rows;
#endif
  return nullptr;
}

const RowsKernels& rows_kernels() {
  static const RowsKernels kernels = fastest_rows();
  return kernels;
}

}  // namespace colossal::ops::kernels
