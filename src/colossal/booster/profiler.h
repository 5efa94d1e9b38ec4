// Measures where the time of some steps is spent: by operator, by layer, and as a timeline.
#pragma once

#include <ATen/record_function.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace colossal {

// Number of a run's steps before a profile begins. They touch memory for the first time and do
// other work that is done only once.
inline constexpr int64_t kStepsBeforeProfile = 2;

// Records operators on all threads of the process from construction to stop(). Only one instance at
// a time. Writes into `directory`, which must exist:
//   trace-rank-N.json   each rank's timeline, for ui.perfetto.dev or chrome://tracing
//   profile.txt         tables of rank 0
class Profiler {
 public:
  Profiler(std::filesystem::path directory, int rank);
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  // Ends the recording, writes the files, and returns the tables as text. steps: how many steps
  // were recorded, for figures per step. Throws IoError.
  std::string stop(int64_t steps);

  struct Recording;

 private:
  std::filesystem::path directory_;
  int rank_;
  std::unique_ptr<Recording> recording_;
  at::CallbackHandle callback_;
};

}  // namespace colossal
