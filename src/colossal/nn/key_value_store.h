// Keys and values of the positions seen so far, so that generating a token costs one position. A
// store decides how they are kept and how queries attend to them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "colossal/ops/attention.h"

namespace colossal::nn {

// Rows [begin, begin + count) of a step's tokens see these before the tokens of their sequences.
struct RowsBehindVirtualTokens {
  ops::VirtualTokens tokens;
  int64_t begin = 0;
  int64_t count = 0;
};

class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;

  // Keeps keys and values [batch, kv_heads, new positions, size] of `layer`, and lets the
  // queries of the same positions, [batch, heads, new positions, head_size], attend to these and to
  // those that came before. Returns the shape of the queries. `options`: those of causal attention,
  // without documents. brought: rows whose virtual tokens are these instead of the options';
  // ascending, disjoint.
  virtual at::Tensor attend(int64_t layer, const at::Tensor& queries, const at::Tensor& keys,
                            const at::Tensor& values, const ops::AttentionOptions& options,
                            const std::vector<RowsBehindVirtualTokens>& brought) = 0;
};

// Keeps a batch of sequences of equal length, each contiguous in memory.
class ContiguousKeyValueStore : public KeyValueStore {
 public:
  // Holds up to `capacity` positions for each layer; memory is taken as layers first attend.
  ContiguousKeyValueStore(int64_t layers, int64_t capacity);

  at::Tensor attend(int64_t layer, const at::Tensor& queries, const at::Tensor& keys,
                    const at::Tensor& values, const ops::AttentionOptions& options,
                    const std::vector<RowsBehindVirtualTokens>& brought) override;

 private:
  struct Layer {
    at::Tensor keys, values;
    int64_t length = 0;
  };
  std::vector<Layer> layers_;
  int64_t capacity_;
};

}  // namespace colossal::nn
