#include "colossal/layout/zigzag.h"

#include "colossal/layout/partition.h"
#include "colossal/layout/runs.h"

namespace colossal {

std::vector<Range> zigzag_runs(int64_t total, int parts, int part, int64_t unit) {
  const Partition pieces(total, 2 * parts, unit);
  const Range early = pieces.range(part), late = pieces.range(2 * parts - 1 - part);
  std::vector<Range> runs;
  append(runs, early);
  append(runs, late);
  return runs;
}

}  // namespace colossal
