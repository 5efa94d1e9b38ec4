// Profiles some steps of a run (log.profile): records all calls of operators and layers, and writes
// tables of the time by layer and by operator, on a GPU also by kernel, and a timeline.
#pragma once

#include <ATen/record_function.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "colossal/training/kernel_times.h"

namespace colossal {

// Records calls of operators, of their gradients, and of layers on all threads of the process, from
// construction to stop(). Times are those of the calls on the CPU: on a GPU, an operator may return
// before the GPU has done its work. The timeline shows all threads. The tables count only the
// thread that constructed the object; on a GPU, autograd runs operators' gradients on another
// thread. A process may have only one instance at a time. stop() writes into `directory`, which
// must exist:
//   trace-rank-N.json   timeline of rank N, for ui.perfetto.dev or chrome://tracing
//   profile.txt         the tables of rank 0 only
class Profiler {
 public:
  // device: of the rank.
  Profiler(std::filesystem::path directory, int rank, c10::Device device);
  ~Profiler();  // ends the recording, without files, unless stop() was called
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  // Ends the recording, writes the files, and returns this rank's tables as text. Call it at most
  // once. steps: number of steps that were recorded, at least 1; the tables have times per step.
  // Throws IoError.
  std::string stop(int64_t steps);

  struct Recording;  // the recorded calls; defined in profiler.cpp

 private:
  std::filesystem::path directory_;
  int rank_;
  std::unique_ptr<KernelTimes> kernels_;  // of a GPU, else null; begins before recording_
  std::unique_ptr<Recording> recording_;
  at::CallbackHandle callback_;
};

}  // namespace colossal
