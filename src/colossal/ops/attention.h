// Scaled dot-product attention that never holds the scores whole.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/ops/attention_rule.h"

namespace colossal::ops {

// softmax(scale * query key^T) value, with what the options do to scores; differentiable.
//   query  [batch, heads, sequence, head_size]
//   key    [batch, kv_heads, key_sequence, head_size]; heads is a multiple of kv_heads: head h uses
//          key head h * kv_heads / heads
//   value  [batch, kv_heads, key_sequence, value_size]
// Returns [batch, heads, sequence, value_size], in memory [batch, sequence, heads, value_size]. The
// inputs may be views whose last dim is contiguous. Where causal, or with a window, slopes or
// documents of the keys alone, key_sequence must be at least sequence.
//
// T. Dao, "FlashAttention-2", 2023, see flash_attention.h. LibTorch's own is used where it is
// faster (one query alone in fp32 or fp64; short fp32) and computes the same. Keys that a window
// hides from all queries are not read.
at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const AttentionOptions& options);

// Some queries of a sequence and some of its keys: the part of an attention that one of several
// ranks computes. Shapes as for attention(); any numbers of queries and of keys.
struct AttentionPart {
  at::Tensor query, key, value;
  // Which positions of the sequence the queries and the keys are, in runs. Causality and dropout go
  // by them.
  std::vector<Range> query_positions, key_positions;
  // [batch, queries] and [batch, keys] int64, or both undefined: a query sees the keys of its own
  // document only.
  at::Tensor query_documents{}, key_documents{};
  // AttentionOptions::sinks, given with the first part of the keys only.
  at::Tensor sinks{};
};

// The result of attention: output [batch, heads, sequence, value_size] and the logarithm of the sum
// of exponentials, [batch, heads, sequence]. They are 0 and -infinity for a query that saw nothing.
// Both in the type of the sums: fp32, or fp64 for fp64 queries.
struct AttentionResult {
  at::Tensor output, logsumexp;
};

// Computes attention to one part of the keys. With `accumulate`, the result becomes that of these
// keys and of those that it had seen before; else it is overwritten. No gradients.
AttentionResult empty_attention_result(const at::Tensor& query, int64_t value_size);
void attend(const AttentionPart& part, const AttentionRule& rule, bool accumulate,
            const AttentionResult& result);

// Computes the gradients of one part, from the result of all keys (its output may be of the
// queries' type). With `accumulate` the query's gradient is added to; all others are overwritten.
// Shapes of query, key and value; any floating types.
struct AttentionGradients {
  at::Tensor query, key, value;
};
void attend_backward(const AttentionPart& part, const AttentionRule& rule, bool accumulate,
                     const AttentionResult& result, const at::Tensor& output_gradient,
                     const AttentionGradients& gradients);

// Returns the gradient of AttentionOptions::sinks by these queries, from the result of all keys and
// the gradient of its output. Ranks with other queries add theirs.
at::Tensor sink_gradient(const at::Tensor& sinks, const AttentionResult& result,
                         const at::Tensor& output_gradient);

}  // namespace colossal::ops
