// Options of attention: which keys a query sees, and how its scores are transformed.
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

// Keys and values that all sequences share and that every query sees in addition to the keys of its
// own sequence (X. L. Li and P. Liang 2021, "Prefix-Tuning"). Virtual tokens are at positions [0,
// count()); the first token of a sequence, or of each of its documents, is at position count().
struct VirtualTokens {
  at::Tensor keys{};    // [kv_heads, count, head_size]; undefined: no virtual tokens
  at::Tensor values{};  // [kv_heads, count, value_size]

  int64_t count() const { return keys.defined() ? keys.size(1) : 0; }
};

struct AttentionOptions {
  // A query sees only the keys up to its own position. The last query is at the position of the
  // last key.
  bool causal = true;
  // Sliding window: a query at position p sees only the keys in (p - window, p], or in (p - window,
  // p + window) if attention is not causal. 0: no window.
  int64_t window = 0;
  // [batch]: prefix length of each sample, in tokens. All queries of a sample see all keys of its
  // prefix, whatever `causal` and `window` are. Empty: no prefixes.
  std::span<const int64_t> prefix_lengths{};
  double scale = 0;  // factor on the scores; 0: 1 / sqrt(head_size)
  // The scaled scores s are replaced by soft_cap * tanh(s / soft_cap). 0: no cap.
  double soft_cap = 0;
  // ALiBi: head h adds alibi_slopes[h] * (position of key - position of query) to the scaled and
  // capped scores. One slope for each query head on this rank; empty: no ALiBi.
  std::span<const double> alibi_slopes{};
  // Attention sinks, [query heads on this rank]: the exponential of a head's sink is added to the
  // denominator of its softmax, as if there were one more key, whose value is zero. Differentiable.
  // Undefined: no sinks.
  at::Tensor sinks{};

  // Only with causal attention, without prefix_lengths and query_documents. Differentiable.
  VirtualTokens virtual_tokens{};

  // [batch, key_sequence] int64: the document of each key. A query belongs to the document of the
  // key at its position (the last query is at the last key), and sees only keys of that document.
  // Padding has a document number of its own. Undefined: all keys are of one document.
  at::Tensor documents{};
  // [batch, sequence] int64: the document of each query, for cross-attention, where queries have no
  // positions among the keys. Requires `documents` and causal = false. Undefined: queries take
  // their documents from `documents`.
  at::Tensor query_documents{};

  // Dropout probability of the attention weights. The mask is a pure function of (random_key,
  // global sample id, head, position of the query, position of the key); random_key's stream
  // identifies the layer.
  double dropout = 0;
  RandomKey random_key{};
  std::span<const int64_t> sample_ids{};  // [batch] global ids; required if dropout > 0
  int64_t head_begin = 0;                 // global index of this rank's first query head
};

// Returns ALiBi's slope for each of a model's heads (O. Press et al., "Train Short, Test Long",
// 2022): 2^(-8 (i + 1) / heads) for head i. If `heads` is not a power of two: the slopes for the
// next smaller power of two p, then every second slope for 2 p heads.
std::vector<double> alibi_slopes(int64_t heads);

// AttentionOptions without its tensors. It owns its lists, and packed() and save() convert it for
// dispatcher operators and for autograd nodes.
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

  // Return the positions of the keys that at least one query (or every query) at the positions
  // `queries` sees, ignoring prefixes and documents. A bound that neither `causal` nor `window`
  // sets lies beyond every position.
  Range seen_by_any(const Range& queries) const;
  Range seen_by_all(const Range& queries) const;
  int64_t prefix_length(int64_t sample) const;  // 0 without prefixes
  // Returns whether a query at one of these positions sees a key at one of these positions, in at
  // least one sample, ignoring documents.
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
