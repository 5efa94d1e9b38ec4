#include "colossal/parallel/sequence/positions.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>

#include "colossal/base/error.h"
#include "colossal/layout/partition.h"
#include "colossal/layout/zigzag.h"

namespace colossal::parallel {

std::vector<Range> positions_of_rank(SequenceMode mode, int64_t sequence, int ranks, int rank) {
  if (mode == SequenceMode::ring) return zigzag_runs(sequence, ranks, rank);
  return {Partition(sequence, ranks).range(rank)};
}

at::Tensor positions_here(int64_t sequence, const ParallelContext& context) {
  const Strategy& strategy = context.strategy();
  COLOSSAL_CHECK(sequence >= strategy.sp, "{} positions for sp = {}", sequence, strategy.sp);
  std::vector<at::Tensor> runs;
  for (const Range& run : positions_of_rank(strategy.sequence_mode, sequence, strategy.sp,
                                            context.coordinate(Axis::sp))) {
    runs.push_back(at::arange(run.begin, run.end, at::kLong));
  }
  return at::cat(runs);
}

nn::SequencePart sequence_part(const ParallelContext& context) {
  if (context.strategy().sp == 1) return {.device = context.device()};
  return {.device = context.device(),
          .positions_of = [&context](int64_t length) { return positions_here(length, context); }};
}

}  // namespace colossal::parallel
