// Divides the sequences of a micro-batch among ranks by nested cuts: over one axis, then each part
// over the next axis, as evenly as possible. A rank may get no sequence.
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
    int part = 0;  // this rank's part
  };
  // levels: from the outermost cut to the innermost.
  explicit BatchCut(std::vector<Level> levels) : levels_(std::move(levels)) {}

  // Returns this rank's range of `batch` sequences.
  Range here(int64_t batch) const { return within(batch, levels_.size()); }
  // within() returns this rank's range of sequences after only the first `first` cuts. counts()
  // returns how the remaining cuts divide that range: the number of sequences of each part, in
  // order.
  std::vector<int64_t> counts(int64_t batch, size_t first) const;
  Range within(int64_t batch, size_t first) const;

  // Returns a copy of `context` restricted to this rank's sequences.
  nn::StepContext local_context(const nn::StepContext& context) const;

 private:
  std::vector<Level> levels_;
};

}  // namespace colossal::parallel
