// Counts the memory of a rank's tensors, step by step, while it trains.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "colossal/memory/memory_count.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/report/chart.h"

namespace colossal {

// Counts from its construction on, on the constructing thread. It is made before the model, so that
// nothing is missed. On a GPU it counts nothing.
class StepMemory {
 public:
  explicit StepMemory(const ParallelContext& context);

  // Resident when this was made: the program, its libraries, a corpus in memory.
  int64_t base_bytes() const { return base_bytes_; }

  void begin_step();
  void end_step();
  // The bytes by kind when most was allocated in the last step; nothing if nothing is counted.
  const std::optional<memory::BytesByKind>& peak() const { return peak_; }
  // The bytes of each kind that occurs, over the second step, in milliseconds, as a chart stacks
  // them. (In the first step memory is touched, and libraries allocate what they keep.)
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
