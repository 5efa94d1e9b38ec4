// Tracks the memory of a rank's tensors during training: the peak of each step, and the course of
// one step, for RunMonitor.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "colossal/memory/memory_count.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/report/chart.h"

namespace colossal {

// Tracks the tensors that the constructing thread allocates, from construction on. Construct it
// before the model, so that no allocation is missed, and destroy it on the same thread. On a GPU
// only the sum is known.
class StepMemory {
 public:
  // The world of `context` must outlive this.
  explicit StepMemory(const ParallelContext& context);

  // Resident bytes of the process at construction: the program, its libraries, a corpus in memory.
  int64_t base_bytes() const { return base_bytes_; }

  // Call these around each training step of the process.
  void begin_step();
  void end_step();
  // Returns the bytes by kind of tensor at the moment when their sum was largest in the step that
  // ended last; nullopt before the first end_step(), or if nothing is tracked.
  const std::optional<memory::BytesByKind>& peak() const { return peak_; }
  // Returns the largest sum of the GPU's memory that was allocated at once since the first
  // begin_step(); 0 on a CPU.
  int64_t device_peak_bytes() const;
  // Returns one series for each kind of tensor, for a stacked chart: x in milliseconds since the
  // begin of the second step, y in bytes. Kinds without bytes are left out. Empty until the second
  // step has ended, or if nothing is tracked. The first step is not shown because it is not
  // typical: memory is touched for the first time, and libraries allocate their caches.
  const std::vector<report::ChartSeries>& second_step() const { return second_step_; }

 private:
  at::Device device_;
  int64_t base_bytes_;
  std::optional<memory::MemoryCount> count_;  // nullopt on a GPU
  int64_t steps_begun_ = 0;
  memory::BytesByKind at_begin_;                 // bytes when the second step began
  std::chrono::steady_clock::time_point begin_;  // when the second step began
  std::optional<memory::BytesByKind> peak_;
  std::vector<report::ChartSeries> second_step_;
};

}  // namespace colossal
