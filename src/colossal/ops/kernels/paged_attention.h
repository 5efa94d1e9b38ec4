// Attention of one token's queries to keys and values that lie in pages.
#pragma once

#include <cstdint>

#include "colossal/base/cpu_features.h"
#include "colossal/ops/kernels/vector_kernels.h"

namespace colossal::ops::kernels {

// Pages hold a multiple of this many positions.
inline constexpr int64_t kPagePositions = 16;

// The queries of a token that share a head of keys. "Real" below: float64 for float64 elements,
// else float32.
struct PagedQueries {
  ElementType type;  // of queries and outputs, and of keys and values where these have no scales
  const void* queries;
  int64_t query_stride;  // from one query to the next
  int64_t count, head_size, value_size;

  // Page p of this head: keys [head_size, page_size] at keys + p * key_page elements, values
  // [page_size, value_size] at values + p * value_page.
  const void* keys;
  const void* values;
  int64_t key_page, value_page, page_size;
  // Keys and values are int8; that of each position is multiplied with a scale, [page_size] at
  // scales + p * scale_page. Null: they are numbers of `type`.
  const float* key_scales;
  const float* value_scales;
  int64_t scale_page;
  const int64_t* pages;  // of the sequence, from its first position on

  int64_t begin, end;  // positions of the keys that are seen; the queries are at end - 1
  double scale;
  double soft_cap;       // 0: none
  const double* slopes;  // ALiBi's, one for each query; null: none
  const double* sinks;   // logits that join the denominators, one for each query; null: none

  void* scratch;  // Real, as many as paged_scratch() says
  void* outputs;
  int64_t output_stride;
  void* logsumexps;  // Real, one for each query: the logarithm of its denominator
};

// Numbers of Real that the kernel needs.
inline int64_t paged_scratch(int64_t count, int64_t positions, int64_t head_size,
                             int64_t value_size) {
  return count * (positions + 2 * kPagePositions + head_size + value_size);
}

using PagedAttentionKernel = void (*)(const PagedQueries& queries);

// One for each instruction set; null where the build or this CPU has none such.
PagedAttentionKernel paged_attention_kernel(InstructionSet instruction_set);

// The widest that this CPU runs.
PagedAttentionKernel paged_attention_kernel();

}  // namespace colossal::ops::kernels
