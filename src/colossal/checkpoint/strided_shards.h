// Brings tensors whose pieces lie strided over the ranks together into contiguous buffers, so that
// a checkpoint is written, and checksummed, in few long ranges.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/comm/group.h"

namespace colossal::checkpoint {

// Elements of a flattened tensor, and what is kept of them: values by kind (weights, masters,
// moments), each flat, of its own type.
struct StridedShard {
  Range elements;
  std::vector<at::Tensor> values;
};

inline constexpr int64_t kBufferBytes = int64_t{64} << 20;
inline constexpr int64_t kBufferElements = kBufferBytes / 8;  // at most kBufferBytes of any kind

// pieces: this rank's share of `numel` elements; over the ranks of the group every element comes
// once. types: of the kinds of values. Calls take(begin, values) with contiguous elements from
// `begin` on, by kind, on the CPU, in buffers of at most `buffer_elements` that are spread over the
// ranks. Collective; take() must not throw.
void exchange_shards(const std::vector<StridedShard>& pieces, int64_t numel,
                     const std::vector<at::ScalarType>& types, const comm::Group& group,
                     const std::function<void(int64_t begin, const std::vector<at::Tensor>&)>& take,
                     int64_t buffer_elements = kBufferElements);

}  // namespace colossal::checkpoint
