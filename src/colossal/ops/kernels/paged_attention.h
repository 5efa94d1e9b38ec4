// Attention of one token's queries to keys and values in the pages of a KV cache.
#pragma once

#include <cstdint>

#include "colossal/base/cpu_features.h"
#include "colossal/ops/kernels/vector_kernels.h"

namespace colossal::ops::kernels {

// The page size is a multiple of this many positions.
inline constexpr int64_t kPagePositions = 16;

// Queries of one token, all of which use the same K/V head. "Real" below: float64 for float64
// elements, else float32.
struct PagedQueries {
  ElementType type;  // of queries and outputs; of keys and values if key_scales is null
  const void* queries;
  int64_t query_stride;  // from one query to the next, in elements
  int64_t count, head_size, value_size;

  // Page p of this head: keys [head_size, page_size] at keys + p * key_page, values [page_size,
  // value_size] at values + p * value_page, offsets in elements.
  const void* keys;
  const void* values;
  int64_t key_page, value_page, page_size;
  // If not null, keys and values are int8 and those of each position are multiplied by a scale,
  // [page_size] at scales + p * scale_page. Null: keys and values are of `type`.
  const float* key_scales;
  const float* value_scales;
  int64_t scale_page;
  const int64_t* pages;  // page numbers of the sequence, in order of positions

  int64_t begin, end;    // positions of the keys that are seen; the token is at position end - 1
  double scale;          // of the scores
  double soft_cap;       // 0: no cap
  const double* slopes;  // ALiBi slopes, one for each query; null: none
  const double* sinks;   // attention sinks, one for each query; null: none

  void* scratch;  // [paged_scratch()] Real
  void* outputs;
  int64_t output_stride;
  void* logsumexps;  // [count] Real: natural logarithms of the softmax denominators, with sinks
};

// Returns the size of PagedQueries::scratch, in numbers of type Real. positions: at least those of
// all pages that hold keys from begin to end.
inline int64_t paged_scratch(int64_t count, int64_t positions, int64_t head_size,
                             int64_t value_size) {
  return count * (positions + 2 * kPagePositions + head_size + value_size);
}

using PagedAttentionKernel = void (*)(const PagedQueries& queries);

// Returns the kernel for an instruction set; null if the build or this CPU does not support it.
PagedAttentionKernel paged_attention_kernel(InstructionSet instruction_set);

// Returns the kernel for the widest instruction set that this CPU supports.
PagedAttentionKernel paged_attention_kernel();

}  // namespace colossal::ops::kernels
