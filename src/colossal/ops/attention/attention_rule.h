// Options of attention: which keys a query sees, and how its scores are transformed.
// AttentionOptions is the argument of attention(); AttentionRule is its copy without tensors.
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

// Trained keys and values that all sequences share (X. L. Li and P. Liang 2021, "Prefix-Tuning").
// Each query sees them in addition to the keys of its own sequence, except those that
// AttentionOptions::window hides. Virtual tokens are at positions [0, count()), and the tokens of a
// sequence at positions from count() on. If a sequence holds several documents, the window and
// ALiBi count distances as if the virtual tokens were directly before the first token of the
// query's own document, not of the sequence.
struct VirtualTokens {
  at::Tensor keys{};    // [kv_heads, count, head_size]; undefined: no virtual tokens
  at::Tensor values{};  // [kv_heads, count, value_size]

  // Returns the number of virtual tokens; 0 if `keys` is undefined.
  int64_t count() const { return keys.defined() ? keys.size(1) : 0; }
};

// Options of attention(). Sizes are those of its arguments: query [batch, heads, sequence,
// head_size], key [batch, kv_heads, key_sequence, head_size]. The spans must stay valid during the
// call.
struct AttentionOptions {
  // Whether a query sees only the keys up to its own position. The last query is at the position of
  // the last key.
  bool causal = true;
  // Sliding window: a query at position p sees only the keys in (p - window, p], or in (p - window,
  // p + window) if attention is not causal. 0: no window.
  int64_t window = 0;
  // [batch]: prefix length of each sample, in tokens. The prefix is the first keys of the sample.
  // All queries of the sample see all keys of the prefix, whatever `causal` and `window` are.
  // Empty: no prefixes.
  std::span<const int64_t> prefix_lengths{};
  double scale = 0;  // factor of the scores; 0 means 1 / sqrt(head_size)
  // The scaled scores s are replaced by soft_cap * tanh(s / soft_cap). 0: no cap.
  double soft_cap = 0;
  // ALiBi: head h adds alibi_slopes[h] * (position of key - position of query) to the scaled and
  // capped scores. One slope for each query head on this rank; empty: no ALiBi.
  std::span<const double> alibi_slopes{};
  // Relative position bias (C. Raffel et al., "T5", 2020), [query heads on this rank, 2 M + 1]: the
  // element [h, M + d] is added to the scores of head h if the position of the key minus that of
  // the query is d; -M for smaller and M for larger differences. Not with a soft cap.
  // Differentiable. Undefined: none.
  at::Tensor relative_bias{};
  // Attention sinks, [query heads on this rank], as in GPT-OSS. The exponential of a head's sink is
  // added to the denominator of the head's softmax. The effect is that of one more key, whose score
  // is the sink and whose value is zero. Differentiable. Undefined: no sinks.
  at::Tensor sinks{};

  // By default there are no virtual tokens. Attention with virtual tokens must be causal, without
  // prefix_lengths and without query_documents. Differentiable.
  VirtualTokens virtual_tokens{};

  // [batch, key_sequence] int64: the document number of each key. A query belongs to the document
  // of the key at the query's position, and sees only keys of that document. Give padding a
  // document number of its own. Undefined: all keys are of one document.
  at::Tensor documents{};
  // The lengths of the documents of all samples, one sample after another, if each sample consists
  // of whole documents; empty: not given. With them GPUs compute each document alone.
  std::span<const int64_t> document_lengths{};
  // [batch, sequence] int64: the document number of each query. For cross-attention, whose queries
  // have no positions among the keys. Requires `documents` and causal = false. Undefined: the
  // document numbers of the queries are taken from `documents`.
  at::Tensor query_documents{};

  // Dropout probability of the attention weights. The mask is a pure function of (random_key,
  // global sample id, head, position of the query, position of the key). So the mask does not
  // depend on how the tensors are sharded.
  double dropout = 0;
  RandomKey random_key{};                 // must differ between layers and steps
  std::span<const int64_t> sample_ids{};  // [batch] global ids; required if dropout > 0
  int64_t head_begin = 0;                 // global index of this rank's first query head
  // Only for cross-attention, and required there with dropout: the positions of this rank's
  // queries, on which the dropout mask depends. Empty: the last query is at the position of the
  // last key; if there are more queries than keys, the first query is at position 0.
  std::vector<Range> query_positions{};
};

// Returns ALiBi's slopes for a model with `heads` heads (O. Press et al., "Train Short, Test Long",
// 2022). If `heads` is a power of two, head i has the slope 2^(-8 (i + 1) / heads). Otherwise let p
// be the largest power of two below `heads`. Head i < p has the slope of head i in a model with p
// heads. Head p + j has the slope of head 2 j in a model with 2 p heads.
std::vector<double> alibi_slopes(int64_t heads);

// AttentionOptions without its tensors. The vectors are copies, so an AttentionRule may outlive the
// options. Members have the meaning that they have in AttentionOptions, except that `scale` is
// always the factor itself.
struct AttentionRule {
  bool causal = true;
  int64_t window = 0;
  std::vector<int64_t> prefix_lengths{};
  std::vector<int64_t> document_lengths{};
  double scale = 1;
  double soft_cap = 0;
  std::vector<double> alibi_slopes{};
  double dropout = 0;
  RandomKey random_key{};
  std::vector<int64_t> sample_ids{};  // empty without dropout
  int64_t head_begin = 0;
  std::vector<Range> query_positions{};

  AttentionRule() = default;
  // Copies `options`, and computes `scale` from head_size if options.scale is 0.
  AttentionRule(const AttentionOptions& options, int64_t head_size);

  // Return which positions the queries at the positions `queries` see: seen_by_any() returns the
  // positions that at least one of the queries sees, and seen_by_all() those that every query sees.
  // queries: not empty. Both functions ignore prefix_lengths and documents, and do not clip the
  // range to the keys: it may begin below 0. A bound that neither `causal` nor `window` determines
  // is about -2^62 or 2^62. If no position is seen by every query, seen_by_all() returns a range
  // whose end is at or before its begin.
  Range seen_by_any(const Range& queries) const;
  Range seen_by_all(const Range& queries) const;
  // Returns the prefix length of sample `sample` of the batch, in tokens; 0 if prefix_lengths
  // is empty.
  int64_t prefix_length(int64_t sample) const;
  // Returns whether, in at least one sample, a query at one of the positions `queries` sees a key
  // at one of the positions `keys`. Takes prefix_lengths into account, but ignores documents.
  bool sees_any(const std::vector<Range>& queries, const std::vector<Range>& keys) const;

  // All members of an AttentionRule in two lists, which dispatcher operators accept as arguments.
  struct Packed {
    std::vector<int64_t> integers;
    std::vector<double> numbers;
  };
  Packed packed() const;
  // Returns the rule whose packed() has these two lists. Throws InternalError if a list is too
  // short.
  static AttentionRule unpacked(at::IntArrayRef integers, at::ArrayRef<double> numbers);
  // Saves the rule in an autograd node's context, which can hold one rule. saved() returns this
  // rule in the backward pass.
  void save(torch::autograd::AutogradContext* context) const;
  static AttentionRule saved(torch::autograd::AutogradContext* context);
};

}  // namespace colossal::ops
