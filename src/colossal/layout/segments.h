// A dim that consists of segments, each sharded separately: queries, keys and values of a fused
// linear layer, or gate and up.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "colossal/base/range.h"

namespace colossal {

// `size` indices of a dim, cut only at multiples of `unit` (for example a head).
struct Segment {
  int64_t size = 0;
  int64_t unit = 1;
  bool operator==(const Segment&) const = default;
};

// Returns the indices that part `part` of `parts` holds of a dim made of `segments`, as ascending
// runs, merged where they touch: its part of each segment (see Partition).
std::vector<Range> held_of_segments(std::span<const Segment> segments, int parts, int part);

}  // namespace colossal
