// Options of attention: which keys a query sees, and what is done to its scores.
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

// Keys and values that queries of all sequences see before those of their own: X. L. Li and P.
// Liang 2021, "Prefix-Tuning". They are at positions [0, count()), and a sequence, or each of its
// documents, begins behind them.
struct VirtualTokens {
  at::Tensor keys{};    // [kv_heads, count, head_size]; undefined: there are none
  at::Tensor values{};  // [kv_heads, count, value_size]

  int64_t count() const { return keys.defined() ? keys.size(1) : 0; }
};

struct AttentionOptions {
  // A query sees the keys up to its own position; the last query is at the last key's position.
  bool causal = true;
  // Sliding window: a query at position p sees the keys in (p - window, p], or, where attention is
  // not causal, in (p - window, p + window). 0: no window.
  int64_t window = 0;
  // [batch]: the length of each sample's prefix. All queries of a sample see the keys of its
  // prefix, whatever causality and window say. Empty: no prefixes.
  std::span<const int64_t> prefix_lengths{};
  double scale = 0;  // of the scores; 0: 1 / sqrt(head_size)
  // The scaled scores s become soft_cap * tanh(s / soft_cap). 0: they stay.
  double soft_cap = 0;
  // ALiBi: head h adds alibi_slopes[h] * (position of key - position of query) to the scaled and
  // capped scores. One for each query head here; empty: nothing is added.
  std::span<const double> alibi_slopes{};
  // Attention sinks: for each query head of this rank a logit that joins the softmax's denominator
  // and has no value. Differentiable. Undefined: none.
  at::Tensor sinks{};

  // Of causal attention. Differentiable.
  VirtualTokens virtual_tokens{};

  // [batch, key_sequence] int64: the document of each key. A query belongs to the document of the
  // key at its position (the last query is at the last key), and sees that document's keys only.
  // Padding is a document of its own. Undefined: all keys are of one document.
  at::Tensor documents{};
  // [batch, sequence] int64: the document of each query, in cross-attention, whose queries are not
  // at the positions of keys. Undefined: see above.
  at::Tensor query_documents{};

  // Dropout of the probabilities. The mask is a pure function of (key, global sample id, head,
  // position of the query, position of the key); the key's stream name tells the layer.
  double dropout = 0;
  RandomKey random_key{};
  std::span<const int64_t> sample_ids{};  // [batch]; needed with dropout only
  int64_t head_begin = 0;                 // global index of the first query head here
};

// Returns ALiBi's slope for each head of a model (O. Press et al., "Train Short, Test Long", 2022):
// the powers of 2^(-8 / heads). If the number of heads is no power of two, it takes the slopes of
// the next smaller power, then every second slope of the next larger one.
std::vector<double> alibi_slopes(int64_t heads);

// The options without tensors, as the dispatcher's operators and autograd's nodes keep them.
struct AttentionRule {
  bool causal = true;
  int64_t window = 0;
  std::vector<int64_t> prefix_lengths{};
  double scale = 1;
  double soft_cap = 0;
  std::vector<double> alibi_slopes{};
  double dropout = 0;
  RandomKey random_key{};
  std::vector<int64_t> sample_ids{};  // empty without dropout
  int64_t head_begin = 0;

  AttentionRule() = default;
  AttentionRule(const AttentionOptions& options, int64_t head_size);

  // Returns the positions of keys that any (or that every) query at these positions sees, without
  // regard to prefixes and documents. An unlimited end is farther than any position.
  Range seen_by_any(const Range& queries) const;
  Range seen_by_all(const Range& queries) const;
  int64_t prefix_length(int64_t sample) const;
  // Whether any of these queries sees any of these keys, without regard to documents.
  bool sees_any(const std::vector<Range>& queries, const std::vector<Range>& keys) const;

  struct Packed {
    std::vector<int64_t> integers;
    std::vector<double> numbers;
  };
  Packed packed() const;
  static AttentionRule unpacked(at::IntArrayRef integers, at::ArrayRef<double> numbers);
  void save(torch::autograd::AutogradContext* context) const;
  static AttentionRule saved(torch::autograd::AutogradContext* context);
};

}  // namespace colossal::ops
