// A dim made of parts that are cut each for itself: queries, keys and values in one product, gate
// and up in another.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "colossal/base/range.h"

namespace colossal {

// `size` indices of a dim, cut between multiples of `unit` only (a head).
struct Segment {
  int64_t size = 0;
  int64_t unit = 1;
  bool operator==(const Segment&) const = default;
};

// Returns the runs of indices that part `part` of `parts` has of a dim made of `segments`: its part
// of each segment (see Partition), ascending, joined where they touch.
std::vector<Range> held_of_segments(std::span<const Segment> segments, int parts, int part);

}  // namespace colossal
