#include "colossal/base/thread_stacks.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

namespace colossal {
namespace {

constexpr int kAsked = SIGQUIT;
constexpr size_t kMostFrames = 64;
constexpr std::chrono::milliseconds kPatience{200};  // with a thread

int capture_signal() {
  return SIGRTMAX - 1;
}

int asked_pipe[2] = {-1, -1};

// What the handler of a thread writes. One thread is asked at a time.
struct Capture {
  std::atomic<pid_t> thread{0};  // the one that is asked: an earlier one is too late
  std::array<void*, kMostFrames> frames{};
  std::atomic<int> count{-1};  // -1: not there yet
};
Capture capture;

void on_asked(int) {
  const int before = errno;
  [[maybe_unused]] const ssize_t written = write(asked_pipe[1], "", 1);
  errno = before;
}

void on_capture(int) {
  if (capture.thread != gettid()) return;
  const int before = errno;
  capture.count = backtrace(capture.frames.data(), static_cast<int>(kMostFrames));
  errno = before;
}

std::string name_of(void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0) return fmt::format("{}", address);
  const std::string module = std::filesystem::path(info.dli_fname).filename().string();
  if (!info.dli_sname) return module;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status), &std::free);
  return fmt::format("{} ({})", status == 0 ? demangled.get() : info.dli_sname, module);
}

std::string stack_of(pid_t thread) {
  capture.count = -1;
  capture.thread = thread;
  if (syscall(SYS_tgkill, getpid(), thread, capture_signal()) != 0) return "";
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (capture.count < 0) {
    if (std::chrono::steady_clock::now() >= end) return "  does not answer\n";
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::string text;
  constexpr size_t kHandlers = 2;  // the handler, and what the kernel calls it by
  const auto frames = std::span(capture.frames).first(static_cast<size_t>(capture.count));
  for (void* const frame : frames.subspan(std::min(kHandlers, frames.size()))) {
    text += "  " + name_of(frame) + "\n";
  }
  return text;
}

void write_stacks(const std::string& who) {
  std::string text = fmt::format("{} (pid {}) does:\n", who, getpid());
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    const auto thread = static_cast<pid_t>(std::stol(task.path().filename().string()));
    if (thread == gettid()) continue;
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    text += fmt::format("thread {} ({}):\n{}", thread, name, stack_of(thread));
  }
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t written = write(STDERR_FILENO, rest.data(), rest.size());
    if (written <= 0) return;
    rest.remove_prefix(static_cast<size_t>(written));
  }
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

}  // namespace

void write_stacks_on_sigquit(std::string who) {
  if (pipe2(asked_pipe, O_CLOEXEC) != 0) return;
  std::array<void*, 1> frames{};
  backtrace(frames.data(), 1);  // its first call allocates, which a handler may not
  sigset_t all{}, before{};
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the program's own threads
  std::thread([who = std::move(who)] {
    char byte = 0;
    while (read(asked_pipe[0], &byte, 1) == 1 || errno == EINTR) write_stacks(who);
  }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  handle(capture_signal(), on_capture);
  handle(kAsked, on_asked);
}

}  // namespace colossal
