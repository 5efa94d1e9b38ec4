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
// inputs may be views whose last dim is contiguous. Causal, or with a window, slopes or documents
// of the keys alone: key_sequence >= sequence.
//
// T. Dao, "FlashAttention-2", 2023, see flash_attention.h. Where LibTorch's own is faster (one
// query alone in fp32 or fp64; short fp32) and computes the same, that. Keys that a window hides
// from all queries are not read.
at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const AttentionOptions& options);

// Some queries of a sequence with some of its keys: what a rank computes of an attention that
// several share. Shapes as for attention(); any numbers of queries and of keys.
struct AttentionPart {
  at::Tensor query, key, value;
  // Which positions of the sequence the queries and the keys are, in runs. Causality and dropout go
  // by them.
  std::vector<Range> query_positions, key_positions;
  // [batch, queries] and [batch, keys] int64, or both undefined: a query sees the keys of its own
  // document only.
  at::Tensor query_documents{}, key_documents{};
  // AttentionOptions::sinks, which the first part of the keys takes in; others leave it alone.
  at::Tensor sinks{};
};

// The result of attention: output [batch, heads, sequence, value_size] and the logarithm of the sum
// of exponentials, [batch, heads, sequence]. They are 0 and -infinity for a query that saw nothing.
// Both in the type of the sums: fp32, or fp64 for fp64 queries.
struct AttentionResult {
  at::Tensor output, logsumexp;
};

// Attention to one part of the keys: the result is written, or, with `accumulate`, becomes that of
// the keys it had seen before and of these. No gradients.
AttentionResult empty_attention_result(const at::Tensor& query, int64_t value_size);
void attend(const AttentionPart& part, const AttentionRule& rule, bool accumulate,
            const AttentionResult& result);

// The gradients of one part, from the result of all keys (its output may be of the queries' type).
// query_gradient is written, or, with `accumulate`, added to; key_gradient and value_gradient are
// written. Shapes of query, key and value; any floating types.
struct AttentionGradients {
  at::Tensor query, key, value;
};
void attend_backward(const AttentionPart& part, const AttentionRule& rule, bool accumulate,
                     const AttentionResult& result, const at::Tensor& output_gradient,
                     const AttentionGradients& gradients);

// The gradient of AttentionOptions::sinks, from the result of all keys and the gradient of its
// output. Its sum over all queries that share the sinks is theirs.
at::Tensor sink_gradient(const at::Tensor& sinks, const AttentionResult& result,
                         const at::Tensor& output_gradient);

}  // namespace colossal::ops
