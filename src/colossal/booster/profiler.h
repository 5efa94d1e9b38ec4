// Measures where the time of a few steps goes: by operator, by layer, and as a timeline.
#pragma once

#include <ATen/record_function.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace colossal {

// By then memory has been touched, and work that is done once is done.
inline constexpr int64_t kStepsBeforeProfile = 2;

// Records what runs on all threads of the process from construction to stop(); one at a time.
// Writes into `directory`, which must exist:
//   trace-rank-N.json   each rank's timeline, for ui.perfetto.dev or chrome://tracing
//   profile.txt         rank 0's tables
class Profiler {
 public:
  Profiler(std::filesystem::path directory, int rank);
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  // Ends the recording of `steps` steps and writes the files; returns the tables. Throws IoError.
  std::string stop(int64_t steps);

  struct Recording;

 private:
  std::filesystem::path directory_;
  int rank_;
  std::unique_ptr<Recording> recording_;
  at::CallbackHandle callback_;
};

}  // namespace colossal
