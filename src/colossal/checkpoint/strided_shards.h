// Redistributes a tensor between the ranks of a group before it is written to a checkpoint. A
// rank's shard may consist of many short ranges of the tensor, such as a part of each row. After
// the exchange, each rank has a few long ranges, which it writes and checksums.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/comm/group.h"

namespace colossal::checkpoint {

// Maximum size in bytes of the buffers in which checkpoints are read and written.
inline constexpr int64_t kBufferBytes = int64_t{64} << 20;
// Number of elements that fit into kBufferBytes bytes in any dtype.
inline constexpr int64_t kBufferElements = kBufferBytes / 8;

// Returns the values of some elements of piece number `piece`: a flat tensor [elements.size()] for
// each kind of values, on any device. An element has several kinds of values: its weight, perhaps
// its master, and its optimizer states.
using ReadPiece = std::function<std::vector<at::Tensor>(size_t piece, Range elements)>;

// Divides a tensor of `numel` elements into buffers of at most `buffer_elements` contiguous
// elements, and sends each buffer to one rank. Buffers go to the ranks of the group round-robin.
// pieces: the ranges that this rank holds; each element must be in exactly one range of one rank.
// read: reads their values, of the dtypes `types`; must not throw. take: called on a rank once for
// each buffer that it receives. `begin` is the index of the buffer's first element; the vector has
// the values of each kind, flat and on the CPU. `take` must not throw. Collective.
void exchange_shards(const std::vector<Range>& pieces, const ReadPiece& read, int64_t numel,
                     const std::vector<at::ScalarType>& types, const comm::Group& group,
                     const std::function<void(int64_t begin, const std::vector<at::Tensor>&)>& take,
                     int64_t buffer_elements = kBufferElements);

}  // namespace colossal::checkpoint
