#include "colossal/parallel/sequence/divided_memory.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>

#include <vector>

#include "colossal/layout/partition.h"
#include "colossal/parallel/collectives.h"
#include "colossal/parallel/sequence/positions.h"

namespace colossal::parallel {
namespace {

at::Tensor gather(const at::Tensor& key_value, int64_t sequence, const ParallelContext& context) {
  const comm::Group& group = context.group(Axis::sp);
  Shares shares{.group = &group, .sizes = {}, .reason = comm::Reason::sequence};
  std::vector<at::Tensor> positions;  // of all ranks
  for (int rank = 0; rank < group.size(); ++rank) {
    int64_t count = 0;
    for (const Range& run :
         positions_of_rank(context.strategy().sequence_mode, sequence, group.size(), rank)) {
      positions.push_back(at::arange(run.begin, run.end, at::kLong));
      count += run.size();
    }
    shares.sizes.push_back(count);
  }
  const at::Tensor rows = key_value.transpose(0, 1).flatten(1);  // [positions, batch * features]
  const at::Tensor places = at::cat(positions).argsort().to(key_value.device());
  return gather_rows(rows, shares)
      .index_select(0, places)
      .unflatten(1, {key_value.size(0), key_value.size(2)})
      .transpose(0, 1);
}

}  // namespace

nn::DividedSequences divided_sequences(const ParallelContext& context) {
  return {.positions =
              [&context](int64_t sequence) {
                const Strategy& strategy = context.strategy();
                return positions_of_rank(strategy.sequence_mode, sequence, strategy.sp,
                                         context.coordinate(Axis::sp));
              },
          .gather = [&context](const at::Tensor& key_value,
                               int64_t sequence) { return gather(key_value, sequence, context); }};
}

}  // namespace colossal::parallel
