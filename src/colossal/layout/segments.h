// Segments of a dim of a tensor. A dim may be several concatenated parts, for example queries, keys
// and values in the outputs of a fused linear layer. Each segment is sharded separately, so that
// every rank gets a part of each.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "colossal/base/range.h"

namespace colossal {

// A segment of a dim: consecutive indices.
struct Segment {
  int64_t size = 0;  // number of indices
  // The segment is divided only at multiples of `unit` from its first index, for example between
  // heads of `unit` channels.
  int64_t unit = 1;
  bool operator==(const Segment&) const = default;
};

// Divides each segment of a dim into `parts` consecutive parts, as evenly as its `unit` allows (see
// Partition). Returns the indices, in the whole dim, of part number `part` (from 0) of all
// segments, as ascending, disjoint ranges; adjacent ranges are merged.
std::vector<Range> indices_of_part(std::span<const Segment> segments, int parts, int part);

}  // namespace colossal
