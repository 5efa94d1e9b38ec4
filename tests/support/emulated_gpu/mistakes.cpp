#include "tests/support/emulated_gpu/mistakes.h"

#include <execinfo.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <mutex>

namespace colossal::emulated_gpu {
namespace {

std::mutex mutex;
bool recording = false;
std::vector<std::string>& recorded() {
  static auto* const all = new std::vector<std::string>;
  return *all;
}

}  // namespace

void print_callers() {
  std::array<void*, 64> frames{};
  backtrace_symbols_fd(frames.data(), backtrace(frames.data(), frames.size()), STDERR_FILENO);
}

void report_mistake(const std::string& mistake) {
  {
    const std::lock_guard lock(mutex);
    if (recording) {
      recorded().push_back(mistake);
      return;
    }
  }
  std::fprintf(stderr, "emulated GPU, process %d: %s\n", getpid(), mistake.c_str());
  print_callers();
  _exit(kExitOfMistake);
}

MistakeRecorder::MistakeRecorder() {
  const std::lock_guard lock(mutex);
  recording = true;
  recorded().clear();
}

MistakeRecorder::~MistakeRecorder() {
  const std::lock_guard lock(mutex);
  recording = false;
}

std::vector<std::string> MistakeRecorder::mistakes() const {
  const std::lock_guard lock(mutex);
  return recorded();
}

}  // namespace colossal::emulated_gpu
