#include "colossal/parallel/tensor/batch_cut.h"

#include <ATen/ATen.h>

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
  const Range range = here(context.batch);
  nn::StepContext seen = context;
  seen.batch = range.size();
  seen.sample_ids.assign(context.sample_ids.begin() + range.begin,
                         context.sample_ids.begin() + range.end);
  if (!context.prefix_lengths.empty()) {
    seen.prefix_lengths.assign(context.prefix_lengths.begin() + range.begin,
                               context.prefix_lengths.begin() + range.end);
  }
  if (context.memory_documents.defined()) {
    seen.memory_documents = context.memory_documents.narrow(0, range.begin, range.size());
  }
  if (context.positions.dim() == 2) {
    seen.positions = context.positions.narrow(0, range.begin, range.size());
  }
  if (context.lengths.defined()) {
    seen.lengths = context.lengths.narrow(0, range.begin, range.size());
  }
  if (context.documents.defined()) {
    seen.documents = context.documents.narrow(0, range.begin, range.size());
  }
  return seen;
}

}  // namespace colossal::parallel
