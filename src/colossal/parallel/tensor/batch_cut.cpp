#include "colossal/parallel/tensor/batch_cut.h"

#include "colossal/layout/partition.h"

namespace colossal::parallel {

Range BatchCut::within(int64_t batch, size_t levels) const {
  Range range{0, batch};
  for (size_t level = 0; level < levels; ++level) {
    const Range part = Partition(range.size(), levels_[level].parts).range(levels_[level].part);
    range = {range.begin + part.begin, range.begin + part.end};
  }
  return range;
}

std::vector<int64_t> BatchCut::counts(int64_t batch, size_t levels) const {
  std::vector<int64_t> counts{within(batch, levels).size()};
  for (size_t level = levels; level < levels_.size(); ++level) {
    std::vector<int64_t> finer;
    for (const int64_t count : counts) {
      const std::vector<int64_t> parts = Partition(count, levels_[level].parts).counts();
      finer.insert(finer.end(), parts.begin(), parts.end());
    }
    counts = std::move(finer);
  }
  return counts;
}

nn::StepContext BatchCut::local_context(const nn::StepContext& context) const {
  const Range rows = here(context.tokens().batch);
  nn::StepContext seen = context;
  seen.sample_ids.assign(context.sample_ids.begin() + rows.begin,
                         context.sample_ids.begin() + rows.end);
  for (nn::TokenGrid& grid : seen.grids) {
    if (!grid.is_empty()) grid = grid.of_rows(rows);
  }
  return seen;
}

}  // namespace colossal::parallel
