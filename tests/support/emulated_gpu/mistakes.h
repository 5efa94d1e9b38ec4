// Mistakes in the use of the GPU that the emulation has found.
#pragma once

#include <string>
#include <vector>

namespace colossal::emulated_gpu {

// The exit code of a process that made a mistake.
constexpr int kExitOfMistake = 99;

// Reports a mistake: prints it with the calling functions and ends the process, unless a
// MistakeRecorder lives.
void report_mistake(const std::string& mistake);

// Records mistakes instead of ending the process. Only one lives at a time.
class MistakeRecorder {
 public:
  MistakeRecorder();
  ~MistakeRecorder();
  MistakeRecorder(const MistakeRecorder&) = delete;
  MistakeRecorder& operator=(const MistakeRecorder&) = delete;

  std::vector<std::string> mistakes() const;
};

// Prints the functions that called this one to stderr. Safe in a signal handler.
void print_callers();

}  // namespace colossal::emulated_gpu
