// Scaled dot-product attention that never holds the scores whole.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "colossal/base/random.h"

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

}  // namespace colossal::ops
