// Divides the sequences of a micro-batch among ranks along several axes, for tensor parallelism in
// 2d, 2.5d and 3d. The sequences are divided over the first axis, then each part is divided over
// the next axis, and so on, each time as evenly as possible. A rank may get no sequence.
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/base/range.h"
#include "colossal/nn/step_context.h"

namespace colossal::parallel {

class BatchCut {
 public:
  // The division over one axis.
  struct Level {
    int parts = 1;  // number of parts: the size of the axis
    int part = 0;   // index of the part that contains this rank's sequences
  };
  // levels: the first one divides the whole micro-batch.
  explicit BatchCut(std::vector<Level> levels) : levels_(std::move(levels)) {}

  // Returns the range of this rank's sequences among the `batch` sequences of the micro-batch.
  Range here(int64_t batch) const { return within(batch, levels_.size()); }
  // Returns the range that contains this rank's sequences if only the first `levels` levels divide
  // the `batch` sequences of the micro-batch. levels = 0: the whole micro-batch.
  Range within(int64_t batch, size_t levels) const;
  // The levels after the first `levels` ones divide the range within(batch, levels) into parts.
  // Returns the number of sequences of each part, in order.
  std::vector<int64_t> counts(int64_t batch, size_t levels) const;

  // context: that of the whole micro-batch. Returns a copy that is restricted to this rank's
  // sequences, except for the rows of adapters, which are copied whole.
  nn::StepContext local_context(const nn::StepContext& context) const;

 private:
  std::vector<Level> levels_;
};

}  // namespace colossal::parallel
