#include "colossal/layout/zigzag.h"

#include "colossal/layout/partition.h"

namespace colossal {

std::vector<Range> zigzag_runs(int64_t total, int parts, int part) {
  const Partition pieces(total, 2 * parts);
  const Range early = pieces.range(part), late = pieces.range(2 * parts - 1 - part);
  std::vector<Range> runs;
  for (const Range& piece : {early, late}) {
    if (piece.empty()) continue;
    if (!runs.empty() && runs.back().end == piece.begin) {
      runs.back().end = piece.end;
    } else {
      runs.push_back(piece);
    }
  }
  return runs;
}

}  // namespace colossal
