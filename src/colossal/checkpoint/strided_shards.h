// Regroups tensors whose elements are scattered over ranks into contiguous buffers, so that a
// checkpoint is written, and checksummed, in few long ranges.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/comm/group.h"

namespace colossal::checkpoint {

// A range of elements of a flattened tensor, with their values: one flat tensor for each kind of
// value (weights, masters, optimizer states), each of its own dtype.
struct StridedShard {
  Range elements;
  std::vector<at::Tensor> values;
};

inline constexpr int64_t kBufferBytes = int64_t{64} << 20;
inline constexpr int64_t kBufferElements = kBufferBytes / 8;  // at most kBufferBytes for any dtype

// pieces: this rank's shards of a tensor of `numel` elements; each element must be in exactly one
// shard of one rank of the group. types: dtype of each entry of `values`. Calls take(begin, values)
// on the rank that receives a buffer: `values` has, for each kind, the contiguous elements from
// `begin` on, on the CPU. A buffer has at most `buffer_elements` elements; buffers are distributed
// over the ranks. Collective; take() must not throw.
void exchange_shards(const std::vector<StridedShard>& pieces, int64_t numel,
                     const std::vector<at::ScalarType>& types, const comm::Group& group,
                     const std::function<void(int64_t begin, const std::vector<at::Tensor>&)>& take,
                     int64_t buffer_elements = kBufferElements);

}  // namespace colossal::checkpoint
