#include "colossal/ops/kernels/attention_passes.h"

namespace colossal::ops::kernels {

const AttentionPasses& avx512_bf16_attention_passes();

const AttentionPasses* native_bf16_attention_passes() {
#if defined(__x86_64__)
  if (has_avx512_bf16()) return &avx512_bf16_attention_passes();
#endif
  return nullptr;
}

AttentionPasses bf16_attention_passes() {
  if (const AttentionPasses* native = native_bf16_attention_passes()) return *native;
  return {vector_kernels().attention_probabilities, vector_kernels().attention_gradients,
          vector_kernels().soft_cap};
}

}  // namespace colossal::ops::kernels
