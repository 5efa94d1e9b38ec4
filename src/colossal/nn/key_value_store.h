// KV cache: keys and values of earlier positions, so that a forward pass computes only the new
// positions. A store decides how keys and values are kept and how queries attend to them. Not
// thread-safe.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "colossal/ops/attention.h"

namespace colossal::nn {

// Rows [begin, begin + count) of a step's tokens attend to the virtual tokens `tokens`, which
// precede the tokens of their sequences.
struct RowsWithVirtualTokens {
  ops::VirtualTokens tokens;
  int64_t begin = 0;
  int64_t count = 0;
};

class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;

  // Stores keys and values of new positions of `layer`, each [batch, kv_heads, new positions,
  // size], and computes attention of the queries at the new positions, [batch, heads, new
  // positions, head_size], to the stored keys and values of new and earlier positions. Returns
  // [batch, heads, new positions, value_size]. options: of causal attention, without documents.
  // rows_with_virtual_tokens: rows whose per-request adapters have virtual tokens, which replace
  // those of `options`; ascending, disjoint.
  virtual at::Tensor attend(int64_t layer, const at::Tensor& queries, const at::Tensor& keys,
                            const at::Tensor& values, const ops::AttentionOptions& options,
                            const std::vector<RowsWithVirtualTokens>& rows_with_virtual_tokens) = 0;
};

// Stores a batch of sequences of equal length, each contiguous in memory. attend() requires empty
// rows_with_virtual_tokens.
class ContiguousKeyValueStore : public KeyValueStore {
 public:
  // Holds up to `capacity` positions per layer; InternalError for more. Memory is allocated when a
  // layer first attends.
  ContiguousKeyValueStore(int64_t layers, int64_t capacity);

  at::Tensor attend(int64_t layer, const at::Tensor& queries, const at::Tensor& keys,
                    const at::Tensor& values, const ops::AttentionOptions& options,
                    const std::vector<RowsWithVirtualTokens>& rows_with_virtual_tokens) override;

 private:
  struct Layer {
    at::Tensor keys, values;
    int64_t length = 0;
  };
  std::vector<Layer> layers_;
  int64_t capacity_;
};

}  // namespace colossal::nn
