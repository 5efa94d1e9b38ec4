#include "colossal/layout/segments.h"

#include "colossal/layout/partition.h"
#include "colossal/layout/runs.h"

namespace colossal {

std::vector<Range> indices_of_part(std::span<const Segment> segments, int parts, int part) {
  std::vector<Range> held;
  int64_t offset = 0;
  for (const Segment& segment : segments) {
    const Range mine = Partition(segment.size, parts, segment.unit).range(part);
    append(held, {offset + mine.begin, offset + mine.end});
    offset += segment.size;
  }
  return held;
}

}  // namespace colossal
