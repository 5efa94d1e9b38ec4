// Scaled dot-product attention that never holds the scores whole.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "colossal/base/random.h"
#include "colossal/base/range.h"

namespace torch::autograd {
struct AutogradContext;
}

namespace colossal::ops {

struct AttentionOptions {
  // A query sees the keys up to its own position; the last query is at the last key's position.
  bool causal = true;
  double scale = 0;  // of the scores; 0: 1 / sqrt(head_size)

  // [batch, key_sequence] int64: the document of each key. A query sees the keys of its own only,
  // that of the key at its position (the last query stands at the last key). Undefined: all are
  // one.
  at::Tensor documents{};

  // Dropout of the probabilities. The mask is a pure function of (key, global sample id, head,
  // position of the query, position of the key); the key's stream name tells the layer.
  double dropout = 0;
  RandomKey random_key{};
  std::span<const int64_t> sample_ids{};  // [batch]; needed with dropout only
  int64_t head_begin = 0;                 // global index of the first query head here
};

// softmax(scale * query key^T) value, differentiable.
//   query  [batch, heads, sequence, head_size]
//   key    [batch, kv_heads, key_sequence, head_size]; heads is a multiple of kv_heads: head h uses
//          key head h * kv_heads / heads
//   value  [batch, kv_heads, key_sequence, value_size]
// Returns [batch, heads, sequence, value_size], in memory [batch, sequence, heads, value_size]. The
// inputs may be views whose last dim is contiguous. Causal or with documents: key_sequence >=
// sequence.
//
// T. Dao, "FlashAttention-2", 2023, see flash_attention.h. Where LibTorch's own is faster (one
// query alone; fp64) and can do it, that.
at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const AttentionOptions& options);

// What becomes of scores: the options but for documents, as an autograd Function keeps them.
struct AttentionRule {
  bool causal = true;
  double scale = 1;
  double dropout = 0;
  RandomKey random_key{};
  std::vector<int64_t> sample_ids{};  // empty without dropout
  int64_t head_begin = 0;

  AttentionRule() = default;
  AttentionRule(const AttentionOptions& options, int64_t head_size);

  void save(torch::autograd::AutogradContext* context) const;
  static AttentionRule saved(torch::autograd::AutogradContext* context);
};

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
};

// What queries have seen: output [batch, heads, sequence, value_size] and the logarithm of the sum
// of exponentials, [batch, heads, sequence]; 0 and -infinity for a query that saw nothing. Both in
// the type of the sums: fp32, or fp64 for fp64 queries.
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

}  // namespace colossal::ops
