// Which keys a query sees, and what becomes of its scores.
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
  // Sliding window: a query at position p sees the keys in (p - window, p], or, where attention is
  // not causal, in (p - window, p + window). 0: no window.
  int64_t window = 0;
  // [batch]: the keys at the first so many positions of a sample are seen by all of its queries,
  // whatever causality and window say. Empty: none.
  std::span<const int64_t> prefix_lengths{};
  double scale = 0;  // of the scores; 0: 1 / sqrt(head_size)
  // The scaled scores s become soft_cap * tanh(s / soft_cap). 0: they stay.
  double soft_cap = 0;
  // ALiBi: head h adds alibi_slopes[h] * (position of key - position of query) to the scaled and
  // capped scores. One for each query head here; empty: nothing is added.
  std::span<const double> alibi_slopes{};
  // Attention sinks, one for each query head here, differentiable: a logit that joins the softmax's
  // denominator, and no value. Undefined: none.
  at::Tensor sinks{};

  // [batch, key_sequence] int64: the document of each key. A query sees the keys of its own only,
  // that of the key at its position (the last query stands at the last key). Undefined: all are
  // one. What pads a sequence is a document of its own.
  at::Tensor documents{};
  // [batch, sequence] int64: those of the queries, where these are not the last keys (cross-
  // attention, which is not causal). Undefined: see above.
  at::Tensor query_documents{};

  // Dropout of the probabilities. The mask is a pure function of (key, global sample id, head,
  // position of the query, position of the key); the key's stream name tells the layer.
  double dropout = 0;
  RandomKey random_key{};
  std::span<const int64_t> sample_ids{};  // [batch]; needed with dropout only
  int64_t head_begin = 0;                 // global index of the first query head here
};

// Of each of a model's heads the slope of ALiBi (O. Press et al., "Train Short, Test Long", 2022):
// the powers of 2^(-8 / heads); where the number of heads is no power of two, those of the largest
// such below it, then every second one of those of the next.
std::vector<double> alibi_slopes(int64_t heads);

// The options but for tensors, as operators of the dispatcher and autograd's nodes keep them.
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

  // The positions of the keys that any, or all, of the queries at these positions see, prefixes and
  // documents left out. An end that nothing limits is farther than any position.
  Range seen_by_any(const Range& queries) const;
  Range seen_by_all(const Range& queries) const;
  int64_t prefix_length(int64_t sample) const;
  // Whether any of these queries sees any of these keys, documents left out.
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
