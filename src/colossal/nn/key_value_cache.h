// Keys and values of the positions seen so far, so that generating a token costs one position.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace colossal::nn {

class KeyValueCache {
 public:
  // Holds up to `capacity` positions for each layer; memory is taken as layers first append.
  KeyValueCache(int64_t layers, int64_t capacity);

  // Appends keys and values [batch, kv_heads, new positions, head_size] of `layer`; returns all so
  // far, [batch, kv_heads, positions, head_size], as views of the cache.
  std::pair<at::Tensor, at::Tensor> append(int64_t layer, const at::Tensor& keys,
                                           const at::Tensor& values);

  int64_t capacity() const { return capacity_; }

 private:
  struct Layer {
    at::Tensor keys, values;
    int64_t length = 0;
  };
  std::vector<Layer> layers_;
  int64_t capacity_;
};

}  // namespace colossal::nn
