// Measures where the time of a few steps is spent: by operator, by layer, and as a timeline.
#pragma once

#include <ATen/record_function.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace colossal {

// Steps before a profile begins. They touch memory for the first time and do one-time work.
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

  // Ends the recording of `steps` steps, writes the files, and returns the tables. Throws IoError.
  std::string stop(int64_t steps);

  struct Recording;

 private:
  std::filesystem::path directory_;
  int rank_;
  std::unique_ptr<Recording> recording_;
  at::CallbackHandle callback_;
};

}  // namespace colossal
