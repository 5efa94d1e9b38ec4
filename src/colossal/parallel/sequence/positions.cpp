#include "colossal/parallel/sequence/positions.h"

#include "colossal/layout/partition.h"
#include "colossal/layout/zigzag.h"

namespace colossal::parallel {

std::vector<Range> positions_of_rank(SequenceMode mode, int64_t sequence, int ranks, int rank) {
  if (mode == SequenceMode::ring) return zigzag_runs(sequence, ranks, rank);
  return {Partition(sequence, ranks).range(rank)};
}

}  // namespace colossal::parallel
