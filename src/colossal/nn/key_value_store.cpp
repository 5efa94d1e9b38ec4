#include "colossal/nn/key_value_store.h"

#include <ATen/ops/empty.h>

#include "colossal/base/error.h"

namespace colossal::nn {

ContiguousKeyValueStore::ContiguousKeyValueStore(int64_t layers, int64_t capacity)
    : layers_(layers), capacity_(capacity) {}

at::Tensor ContiguousKeyValueStore::attend(
    int64_t index, const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
    const ops::AttentionOptions& options,
    const std::vector<RowsWithVirtualTokens>& rows_with_virtual_tokens) {
  COLOSSAL_CHECK(rows_with_virtual_tokens.empty(),
                 "{} runs of rows with virtual tokens of their own",
                 rows_with_virtual_tokens.size());
  Layer& layer = layers_.at(index);
  if (!layer.keys.defined()) {
    const auto with_capacity = [&](const at::Tensor& like) {
      std::vector<int64_t> shape = like.sizes().vec();
      shape[2] = capacity_;
      return at::empty(shape, like.options());
    };
    layer.keys = with_capacity(keys);
    layer.values = with_capacity(values);
  }
  const int64_t added = keys.size(2);
  COLOSSAL_CHECK(layer.length + added <= capacity_, "length {} + {} capacity {}", layer.length,
                 added, capacity_);
  layer.keys.narrow(2, layer.length, added).copy_(keys);
  layer.values.narrow(2, layer.length, added).copy_(values);
  layer.length += added;
  return ops::attention(queries, layer.keys.narrow(2, 0, layer.length),
                        layer.values.narrow(2, 0, layer.length), options);
}

}  // namespace colossal::nn
