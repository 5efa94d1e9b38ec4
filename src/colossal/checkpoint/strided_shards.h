// Exchanges the elements of a tensor between ranks so that each rank gets contiguous elements. If a
// rank's shard consists of many short ranges of the tensor, a checkpoint is thus still written, and
// checksummed, in few long ranges.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/comm/group.h"

namespace colossal::checkpoint {

// A range of elements of a flattened tensor, with one flat tensor of values for each kind of value:
// weights, masters, and each optimizer state. Each kind has a dtype of its own.
struct StridedShard {
  Range elements;
  std::vector<at::Tensor> values;
};

inline constexpr int64_t kBufferBytes = int64_t{64} << 20;
inline constexpr int64_t kBufferElements = kBufferBytes / 8;  // at most kBufferBytes for any dtype

// Cuts a tensor of `numel` elements into buffers of at most `buffer_elements` contiguous elements.
// Each buffer is sent to one rank of the group, and the ranks take turns. pieces: this rank's
// shards of the tensor, with values on the group's device; each element must be in exactly one
// shard of one rank. types: the dtype of each kind of value. take: called on the rank that receives
// a buffer; `begin` is the buffer's first element, and `values` has one tensor for each kind, on
// the CPU. It must not throw. Collective.
void exchange_shards(const std::vector<StridedShard>& pieces, int64_t numel,
                     const std::vector<at::ScalarType>& types, const comm::Group& group,
                     const std::function<void(int64_t begin, const std::vector<at::Tensor>&)>& take,
                     int64_t buffer_elements = kBufferElements);

}  // namespace colossal::checkpoint
