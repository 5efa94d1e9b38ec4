// The KV cache of generation: it keeps the keys and values of earlier positions, so that a forward
// pass computes only the new positions. If StepServices::key_values points to a store,
// self-attention layers call the store's attend() in place of ops::attention(). Stores are not
// thread-safe.
// paged_key_value_store.h has the store for serving many sequences.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "colossal/ops/attention/attention.h"

namespace colossal::nn {

// The virtual tokens of a per-request adapter. The new positions [begin, begin + count) of a
// forward pass, counted over its flattened [batch, new positions], attend to them. The virtual
// tokens precede the sequences of these positions.
struct RowsWithVirtualTokens {
  ops::VirtualTokens tokens;
  int64_t begin = 0;
  int64_t count = 0;
};

class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;

  // Stores the keys and values of the new positions, then computes the attention of the queries at
  // the new positions to the keys and values of earlier and new positions.
  //   layer    index of the attention layer
  //   queries  [batch, heads, new positions, head_size]
  //   keys     [batch, kv_heads, new positions, head_size]
  //   values   [batch, kv_heads, new positions, value_size]
  //   options  must be causal and without documents
  //   rows_with_virtual_tokens  one entry for each run of new positions whose per-request adapter
  //            has virtual tokens; in ascending order, disjoint. For the positions of an entry, its
  //            virtual tokens replace options.virtual_tokens
  // Returns [batch, heads, new positions, value_size].
  virtual at::Tensor attend(int64_t layer, const at::Tensor& queries, const at::Tensor& keys,
                            const at::Tensor& values, const ops::AttentionOptions& options,
                            const std::vector<RowsWithVirtualTokens>& rows_with_virtual_tokens) = 0;
};

}  // namespace colossal::nn
