// A KeyValueStore for a batch of sequences of equal length, with one tensor of keys and one of
// values for each layer: the simplest that can be, which the store of serving is not.
#pragma once

#include <ATen/ops/empty.h>

#include <vector>

#include "colossal/nn/key_value_store.h"

namespace colossal::test {

class ContiguousKeyValues : public nn::KeyValueStore {
 public:
  // capacity: maximum number of positions of a sequence.
  ContiguousKeyValues(int64_t layers, int64_t capacity) : layers_(layers), capacity_(capacity) {}

  at::Tensor attend(int64_t index, const at::Tensor& queries, const at::Tensor& keys,
                    const at::Tensor& values, const ops::AttentionOptions& options,
                    const std::vector<nn::RowsWithVirtualTokens>&) override {
    Layer& layer = layers_.at(index);
    if (!layer.keys.defined()) {
      layer.keys = with_capacity(keys);
      layer.values = with_capacity(values);
    }
    const int64_t added = keys.size(2);
    layer.keys.narrow(2, layer.length, added).copy_(keys);
    layer.values.narrow(2, layer.length, added).copy_(values);
    layer.length += added;
    return ops::attention(queries, layer.keys.narrow(2, 0, layer.length),
                          layer.values.narrow(2, 0, layer.length), options);
  }

 private:
  struct Layer {
    at::Tensor keys, values;  // [batch, kv_heads, capacity, size]; undefined before first attend()
    int64_t length = 0;       // number of stored positions
  };

  at::Tensor with_capacity(const at::Tensor& like) const {
    std::vector<int64_t> shape = like.sizes().vec();
    shape[2] = capacity_;
    return at::empty(shape, like.options());
  }

  std::vector<Layer> layers_;
  int64_t capacity_;
};

}  // namespace colossal::test
