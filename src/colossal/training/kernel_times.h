// The times of the kernels that a GPU runs, as CUPTI measures them (through LibTorch's Kineto).
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

namespace colossal {

// Records from construction on, on the constructing thread's behalf. A process may have only one at
// a time.
class KernelTimes {
 public:
  explicit KernelTimes(c10::Device gpu);
  ~KernelTimes();  // ends the recording, unless stop() was called
  KernelTimes(const KernelTimes&) = delete;
  KernelTimes& operator=(const KernelTimes&) = delete;

  // Waits for the GPU, ends the recording, and returns a table of the kernels and copies that took
  // most time. milliseconds: of the recording; steps: that were recorded, at least 1. Call it at
  // most once.
  std::string stop(double milliseconds, int64_t steps);

 private:
  c10::Device gpu_;
  bool records_ = true;
};

}  // namespace colossal
