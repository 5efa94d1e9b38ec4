// Scaled dot-product attention that never materializes the whole score matrix.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/ops/attention_rule.h"

namespace colossal::ops {

// Returns softmax(scale * query key^T) value, with the masks, biases and caps of `options` applied
// to the scores. Differentiable.
//   query  [batch, heads, sequence, head_size]
//   key    [batch, kv_heads, key_sequence, head_size]; heads is a multiple of kv_heads: query head
//          h uses key head h * kv_heads / heads
//   value  [batch, kv_heads, key_sequence, value_size]
// The result is [batch, heads, sequence, value_size], stored as [batch, sequence, heads,
// value_size]. The inputs may be views. key_sequence must be at least `sequence` if the attention
// is causal, or has a window or ALiBi slopes, or if `documents` is given without `query_documents`.
// Throws InternalError if shapes or options do not match.
//
// T. Dao, "FlashAttention-2", 2023, see flash_attention.h. LibTorch's flash attention is called
// where it computes the same and is faster (a single query in fp32 or fp64; short sequences in
// fp32). Keys that the window hides from all queries are not read.
at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const AttentionOptions& options);

// A subset of a sequence's queries and a subset of its keys: the part of the attention that one of
// several ranks computes. Shapes as for attention(), with any number of queries and of keys.
struct AttentionPart {
  at::Tensor query, key, value;
  // The sequence positions of the queries and of the keys, as runs. Causal masks and dropout depend
  // on these positions.
  std::vector<Range> query_positions, key_positions;
  // [batch, queries] and [batch, keys] int64, or both undefined. A query sees only keys of its own
  // document.
  at::Tensor query_documents{}, key_documents{};
  // AttentionOptions::sinks. Pass sinks with the first part of the keys only.
  at::Tensor sinks{};
};

// Result of attention: output [batch, heads, sequence, value_size] and logsumexp, the logarithm of
// the sum of the exponentials of the scores, [batch, heads, sequence]. For a query that saw no key
// they are 0 and -infinity. Both are in the accumulation type: fp32, or fp64 for fp64 queries.
struct AttentionResult {
  at::Tensor output, logsumexp;
};

// Allocates an uninitialized result for attend().
AttentionResult empty_attention_result(const at::Tensor& query, int64_t value_size);
// Computes attention to one part of the keys. With `accumulate`, merges it into `result` of the
// keys of earlier calls; else overwrites `result`. Not differentiable.
void attend(const AttentionPart& part, const AttentionRule& rule, bool accumulate,
            const AttentionResult& result);

// Gradients in the shapes of query, key and value, of any floating type.
struct AttentionGradients {
  at::Tensor query, key, value;
};
// Computes the gradients of one part, given the result over all keys (result.output may be of the
// queries' type). With `accumulate`, adds to gradients.query; else overwrites it. Always overwrites
// gradients.key and gradients.value.
void attend_backward(const AttentionPart& part, const AttentionRule& rule, bool accumulate,
                     const AttentionResult& result, const at::Tensor& output_gradient,
                     const AttentionGradients& gradients);

// Returns the gradient of AttentionOptions::sinks, [heads], from these queries alone, given the
// result over all keys and the gradient of its output. If several ranks hold queries, sum their
// results.
at::Tensor sink_gradient(const at::Tensor& sinks, const AttentionResult& result,
                         const at::Tensor& output_gradient);

}  // namespace colossal::ops
