// Receives signals through a file descriptor that can be polled, so that none of our code runs in a
// signal handler. The launcher's only thread polls signals and sockets together; the end of a rank
// arrives as SIGCHLD.
#pragma once

#include <csignal>
#include <span>
#include <vector>

#include "colossal/base/file_descriptor.h"

namespace colossal::cluster {

// While this exists, the given signals are queued here instead of being delivered. Signals that the
// process already ignored stay ignored, except SIGCHLD. Create this before other threads start, so
// that they inherit the blocked signals: a thread that does not block them would receive them.
// Destroy it on the constructing thread.
class SignalQueue {
 public:
  explicit SignalQueue(std::span<const int> signals);
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  int fd() const { return fd_.get(); }
  std::vector<int> take();  // the signals received since the last call; does not wait

 private:
  sigset_t mask_before_;
  FileDescriptor fd_;
};

}  // namespace colossal::cluster
