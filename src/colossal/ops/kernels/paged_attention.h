// The kernel of ops/attention/paged_attention.h: attention of the queries of one token, for one K/V
// head, to keys and values in the pages of a KV cache.
#pragma once

#include <cstdint>

#include "colossal/base/cpu_features.h"
#include "colossal/ops/kernels/vector_kernels.h"

namespace colossal::ops::kernels {

// The page size must be a multiple of kPagePositions positions.
inline constexpr int64_t kPagePositions = 16;

// Arguments of the kernel: the queries of one token that share a K/V head (the query heads of one
// group). The kernel computes in "Real", which is double for float64 elements, otherwise float.
struct PagedQueries {
  ElementType type;      // of queries and outputs; of keys and values if key_scales is null
  const void* queries;   // [count, head_size]
  int64_t query_stride;  // distance of queries, in elements
  int64_t count, head_size, value_size;  // count: number of queries

  // Pages of the K/V head. Page p has the keys [head_size, page_size] at keys + p * key_page, and
  // the values [page_size, value_size] at values + p * value_page. Offsets are in elements, and
  // page_size is in positions.
  const void* keys;
  const void* values;
  int64_t key_page, value_page, page_size;
  // For int8 keys and values: the factor of each position's key and value. Page p has the factors
  // [page_size] at key_scales + p * scale_page and at value_scales + p * scale_page. Both null:
  // keys and values are of type `type`.
  const float* key_scales;
  const float* value_scales;
  int64_t scale_page;
  // Page numbers of the sequence: page pages[i] holds the positions from i * page_size on.
  const int64_t* pages;

  int64_t begin, end;    // positions whose keys are seen; begin < end; the token is at end - 1
  double scale;          // factor of the scores
  double soft_cap;       // as AttentionOptions::soft_cap; 0: no cap
  const double* slopes;  // [count]: ALiBi slope of each query; null: no ALiBi
  // [count, bias_size]: relative position bias of each query, by how many positions the key is
  // before the token; the last element is for all larger distances. Null: none.
  const double* relative_bias;
  int64_t bias_size;
  const double* sinks;  // [count]: attention sink of each query; null: no sinks

  void* scratch;          // memory for paged_scratch() numbers of type Real
  void* outputs;          // [count, value_size]; written
  int64_t output_stride;  // distance of outputs, in elements
  // [count] Real; written: natural logarithm of each query's softmax denominator, which includes
  // the sink.
  void* logsumexps;
};

// Returns the size of PagedQueries::scratch, in numbers of type Real. positions: number of
// positions of all pages that hold keys in [begin, end), or more. Each of the `count` queries needs
// room for itself (head_size), its scores (positions) and its output (value_size); 2 *
// kPagePositions numbers per query are spare.
inline int64_t paged_scratch(int64_t count, int64_t positions, int64_t head_size,
                             int64_t value_size) {
  return count * (positions + 2 * kPagePositions + head_size + value_size);
}

// Computes queries.outputs and queries.logsumexps.
using PagedAttentionKernel = void (*)(const PagedQueries& queries);

// Returns the kernel for an instruction set; null if the build or this CPU does not support it.
PagedAttentionKernel paged_attention_kernel(InstructionSet instruction_set);

// Returns the kernel for the widest instruction set that this CPU supports.
PagedAttentionKernel paged_attention_kernel();

}  // namespace colossal::ops::kernels
