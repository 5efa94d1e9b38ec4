// Receives signals through a file descriptor (signalfd), so that a thread can wait for signals and
// sockets with one poll() and no code runs in a signal handler. Supervisor and StopListener use it.
#pragma once

#include <csignal>
#include <future>
#include <span>
#include <vector>

#include "colossal/base/file_descriptor.h"

namespace colossal::cluster {

// While a SignalQueue exists, the signals in `signals` are queued in it instead of being delivered.
// Signals that the process ignored before stay ignored. SIGCHLD, which reports the end of children,
// is queued even then: its action is set to the default, and stays so after the destructor. Create
// the SignalQueue before other threads start: they inherit the blocked signals, and a thread that
// does not block a signal would receive it; see call_without_signals(). Destroy it on the
// constructing thread; signals that are still queued are then delivered to the process.
class SignalQueue {
 public:
  explicit SignalQueue(std::span<const int> signals);
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  int fd() const { return fd_.get(); }  // readable when a signal is queued
  // Returns and removes the queued signals. A signal that arrived several times may be returned
  // only once. Does not wait.
  std::vector<int> take();

 private:
  sigset_t mask_before_;  // the thread's signal mask, which the destructor restores
  FileDescriptor fd_;
};

// While it exists, the constructing thread, and the threads that it starts, receive no signals but
// those of errors of their own.
class NoSignals {
 public:
  NoSignals();
  ~NoSignals();
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t mask_before_;
};

// Returns function(), called on a thread of its own, which receives no signals; nor do the threads
// that function() leaves behind, such as those of LibTorch. So a SignalQueue may be created
// afterwards. Signals meanwhile are for the calling thread.
template <class Function>
auto call_without_signals(Function function) {
  std::future<decltype(function())> result;
  {
    const NoSignals none;
    result = std::async(std::launch::async, std::move(function));
  }
  return result.get();
}

}  // namespace colossal::cluster
