// Tracks the memory of a rank's tensors during training, step by step.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "colossal/memory/memory_count.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/report/chart.h"

namespace colossal {

// Tracks the tensors that the constructing thread allocates, from construction on. Construct it
// before the model, so that no allocation is missed. On a GPU nothing is tracked.
class StepMemory {
 public:
  explicit StepMemory(const ParallelContext& context);

  // Resident bytes of the process at construction: the program, its libraries, a corpus in memory.
  int64_t base_bytes() const { return base_bytes_; }

  void begin_step();
  void end_step();
  // Returns the bytes by kind at the peak of the last step; nullopt if nothing is tracked.
  const std::optional<memory::BytesByKind>& peak() const { return peak_; }
  // Returns the bytes of each kind during the second step, for a stacked chart; x is in
  // milliseconds since the begin of the step. Kinds without bytes are left out. The first step is
  // not typical: memory is touched for the first time, and libraries allocate their caches.
  const std::vector<report::ChartSeries>& second_step() const { return second_step_; }

 private:
  int64_t base_bytes_;
  std::optional<memory::MemoryCount> count_;
  int64_t steps_begun_ = 0;
  memory::BytesByKind at_begin_;
  std::chrono::steady_clock::time_point begin_;
  std::optional<memory::BytesByKind> peak_;
  std::vector<report::ChartSeries> second_step_;
};

}  // namespace colossal
