#include "colossal/layout/segments.h"

#include "colossal/layout/partition.h"

namespace colossal {

std::vector<Range> held_of_segments(std::span<const Segment> segments, int parts, int part) {
  std::vector<Range> held;
  int64_t offset = 0;
  for (const Segment& segment : segments) {
    const Range mine = Partition(segment.size, parts, segment.unit).range(part);
    const Range run{offset + mine.begin, offset + mine.end};
    offset += segment.size;
    if (run.empty()) continue;
    if (!held.empty() && held.back().end == run.begin) {
      held.back().end = run.end;
    } else {
      held.push_back(run);
    }
  }
  return held;
}

}  // namespace colossal
