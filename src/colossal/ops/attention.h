// Scaled dot-product attention that never materializes the whole score matrix.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/ops/attention_rule.h"

namespace colossal::ops {

// Returns softmax(scale * query key^T) value, with the masks, biases and the cap of `options`
// applied to the scores. Differentiable.
//   query  [batch, heads, sequence, head_size]
//   key    [batch, kv_heads, key_sequence, head_size]; heads is a multiple of kv_heads: query head
//          h uses key head h * kv_heads / heads
//   value  [batch, kv_heads, key_sequence, value_size]
// The result is [batch, heads, sequence, value_size]; in memory its order is [batch, sequence,
// heads, value_size]. The inputs may be views. key_sequence must be at least `sequence` if the
// attention is causal, if it has a window or ALiBi slopes, or if `documents` is given without
// `query_documents`. Throws InternalError if shapes or options do not match.
//
// The algorithm is that of T. Dao, "FlashAttention-2", 2023; see flash_attention.h. On the CPU,
// LibTorch's flash attention is called instead where it computes the same result faster: for a
// single query in fp32 or fp64, and for at most 64 queries in fp32. Without dropout and prefixes,
// keys that the window hides from all queries are not read.
at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const AttentionOptions& options);

// A subset of a sequence's queries and a subset of its keys: a part of the attention that one of
// several ranks computes. Shapes are as for attention(), with any numbers of queries and keys.
struct AttentionPart {
  at::Tensor query, key, value;
  // The positions of the queries and of the keys in the sequence, as runs. Masks, ALiBi and dropout
  // depend on them.
  std::vector<Range> query_positions, key_positions;
  // [batch, queries] and [batch, keys] int64: the document of each. A query sees only keys of its
  // own document. Both undefined: there is one document.
  at::Tensor query_documents{}, key_documents{};
  // AttentionOptions::sinks. If attend() is called for several parts of the keys, pass the sinks in
  // only one of the calls, the first.
  at::Tensor sinks{};
};

// Result of attention. output: [batch, heads, sequence, value_size]. logsumexp: [batch, heads,
// sequence], the logarithm of the sum of the exponentials of a query's scores. For a query that
// sees no key, output is 0 and logsumexp is -infinity. Both are in the accumulation type: fp32, or
// fp64 for fp64 queries.
struct AttentionResult {
  at::Tensor output, logsumexp;
};

// Allocates an uninitialized result for attend().
AttentionResult empty_attention_result(const at::Tensor& query, int64_t value_size);
// Computes the attention to one part of the keys. With `accumulate`, `result` holds the attention
// to the keys of earlier calls, and this part is merged into it; otherwise `result` is overwritten.
// Not differentiable.
void attend(const AttentionPart& part, const AttentionRule& rule, bool accumulate,
            const AttentionResult& result);

// Gradients of query, key and value, in their shapes and of any floating type.
struct AttentionGradients {
  at::Tensor query, key, value;
};
// Computes the gradients of one part. result: over all keys, not only those of this part;
// result.output may be of the queries' type. With `accumulate`, adds to gradients.query; otherwise
// overwrites it. Always overwrites gradients.key and gradients.value.
void attend_backward(const AttentionPart& part, const AttentionRule& rule, bool accumulate,
                     const AttentionResult& result, const at::Tensor& output_gradient,
                     const AttentionGradients& gradients);

// Returns the gradient of AttentionOptions::sinks, [heads], as far as it comes from the queries in
// `result`. result: over all keys. output_gradient: of result.output. If several ranks hold queries
// of a sequence, the caller must sum the gradients that they get.
at::Tensor sink_gradient(const at::Tensor& sinks, const AttentionResult& result,
                         const at::Tensor& output_gradient);

}  // namespace colossal::ops
