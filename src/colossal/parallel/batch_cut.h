// Divides the sequences of a micro-batch among ranks: over one axis, each part over the next one,
// as evenly as they go. A rank may have none.
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/nn/step_context.h"

namespace colossal::parallel {

class BatchCut {
 public:
  struct Level {
    int parts = 1;
    int part = 0;  // this rank's
  };
  // Levels go from the outermost cut to the innermost.
  explicit BatchCut(std::vector<Level> levels) : levels_(std::move(levels)) {}

  // Returns which of `batch` sequences this rank has.
  Range here(int64_t batch) const { return within(batch, levels_.size()); }
  // Returns how many of the sequences that the first `first` cuts leave here each rank along the
  // other cuts has, in rank order.
  std::vector<int64_t> counts(int64_t batch, size_t first) const;
  // Returns the sequences that the first `first` cuts leave here.
  Range within(int64_t batch, size_t first) const;

  // Returns the context of a step that has only this rank's sequences.
  nn::StepContext seen_here(const nn::StepContext& context) const;

 private:
  std::vector<Level> levels_;
};

}  // namespace colossal::parallel
