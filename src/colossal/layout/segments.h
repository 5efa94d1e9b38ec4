// Segments of a dim. Each is sharded separately: for example the queries, keys and values of a
// fused linear layer, or its gate and up.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "colossal/base/range.h"

namespace colossal {

// `size` consecutive indices of a dim. Shards are cut only at multiples of `unit` from the start of
// the segment (for example `unit` channels of a head).
struct Segment {
  int64_t size = 0;
  int64_t unit = 1;
  bool operator==(const Segment&) const = default;
};

// Cuts every segment of a dim into `parts` parts (see Partition). Returns the indices in part
// number `part` of all segments, as ascending runs; adjacent runs are merged.
std::vector<Range> indices_of_part(std::span<const Segment> segments, int parts, int part);

}  // namespace colossal
