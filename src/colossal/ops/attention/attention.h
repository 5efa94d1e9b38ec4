// Scaled dot-product attention that never materializes the whole score matrix. attention() is the
// differentiable function for models. attend() and attend_backward() compute parts of an attention
// for ranks that divide a sequence among themselves. On GPUs, all of them call only LibTorch's
// operators (aten_fallback.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/ops/attention/attention_rule.h"

namespace colossal::ops {

// Returns softmax(scale * query key^T) value, with the masks, biases and the cap of `options`
// applied to the scores. Differentiable.
//   query  [batch, heads, sequence, head_size]
//   key    [batch, kv_heads, key_sequence, head_size]. heads is a multiple of kv_heads; query head
//          h uses key head floor(h * kv_heads / heads)
//   value  [batch, kv_heads, key_sequence, value_size]
// Returns [batch, heads, sequence, value_size], with the memory order [batch, sequence, heads,
// value_size]. The inputs may be views. key_sequence must be at least `sequence` if the attention
// is causal, if it has a window, ALiBi slopes or a relative bias, or if `documents` is given
// without `query_documents`. Throws InternalError if shapes or options do not match.
//
// The algorithm is that of T. Dao, "FlashAttention-2", 2023; see flash_attention.h. On the CPU,
// LibTorch's flash attention is faster for up to 64 queries in fp32, and for a single query in
// fp64. In these two cases, attention() calls LibTorch's function if that supports the options and
// shapes. Keys that the window hides from all queries are not read, unless there is dropout or
// options.prefix_lengths is not empty.
at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const AttentionOptions& options);

// Some of a sequence's queries and some of its keys and values. Sequence parallelism computes
// attention in such parts. Shapes are as for attention(), with any numbers of queries and keys.
struct AttentionPart {
  at::Tensor query, key, value;
  // The positions of the queries and of the keys in the sequence, in the order in which `query` and
  // `key` hold them. Masks, ALiBi and dropout depend on these positions.
  std::vector<Range> query_positions, key_positions;
  // [batch, queries] and [batch, keys] int64: document numbers. A query sees only keys of its own
  // document. Both undefined: all queries and keys are of one document.
  at::Tensor query_documents{}, key_documents{};
  // AttentionOptions::sinks; undefined: none. If attend() is called for several parts of the keys,
  // pass the sinks in only one of the calls, the first. attend_backward() ignores them.
  at::Tensor sinks{};
  at::Tensor relative_bias{};  // AttentionOptions::relative_bias; undefined: none
};

// Result of attention. output: [batch, heads, queries, value_size]. logsumexp: [batch, heads,
// queries], the logarithm of the sum of the exponentials of a query's scores and, if there are
// sinks, of the head's sink. For a query that sees no key, output is 0 and logsumexp is the sink;
// without sinks, it is -infinity. logsumexp is in the accumulation type: fp64 for fp64 queries,
// otherwise fp32. output is in the accumulation type or in the type of the queries.
struct AttentionResult {
  at::Tensor output, logsumexp;
};

// Allocates an uninitialized result for attend(), with both tensors in the accumulation type.
// query: [batch, heads, queries, head_size].
AttentionResult empty_attention_result(const at::Tensor& query, int64_t value_size);
// Computes the attention of part.query to the keys of the part, and writes it to `result`. rule:
// the options of the attention, without their tensors. With `accumulate`, `result` already holds
// the attention to the keys of earlier calls; the attention to this part's keys is merged into it.
// Otherwise `result` is overwritten. Not differentiable. Throws InternalError if shapes or options
// do not match.
void attend(const AttentionPart& part, const AttentionRule& rule, bool accumulate,
            const AttentionResult& result);

// Gradients of query, key and value: tensors with the shapes of an AttentionPart's query, key and
// value, of any floating type.
struct AttentionGradients {
  at::Tensor query, key, value;
  // With AttentionPart::relative_bias: a tensor of its sizes, in the accumulation type, to which
  // attend_backward() adds.
  at::Tensor relative_bias{};
};
// Computes the gradients of part.query, part.key and part.value, and writes them to `gradients`.
// result: the queries' attention to all keys, not only to those of this part. output_gradient: of
// result.output. With `accumulate`, adds to gradients.query; otherwise overwrites it. Always
// overwrites gradients.key and gradients.value.
void attend_backward(const AttentionPart& part, const AttentionRule& rule, bool accumulate,
                     const AttentionResult& result, const at::Tensor& output_gradient,
                     const AttentionGradients& gradients);

// Returns the gradient of AttentionOptions::sinks, [heads], summed over the queries in `result`.
// result: the attention to all keys. output_gradient: of result.output. If several ranks hold
// queries of a sequence, the caller must sum the returned gradients over these ranks.
at::Tensor sink_gradient(const at::Tensor& sinks, const AttentionResult& result,
                         const at::Tensor& output_gradient);

}  // namespace colossal::ops
