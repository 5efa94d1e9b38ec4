// Receives signals through a file descriptor to poll, so that none of our code runs in a signal
// handler. The launcher's single thread polls for signals, ranks and sockets together.
#pragma once

#include <csignal>
#include <span>
#include <vector>

#include "colossal/base/file_descriptor.h"

namespace colossal::cluster {

// While this exists, the given signals of this process are queued here. Signals that the process
// already ignored stay ignored, except SIGCHLD. Create this before other threads start: a thread
// that does not block these signals would receive them.
class SignalQueue {
 public:
  explicit SignalQueue(std::span<const int> signals);
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  int fd() const { return fd_.get(); }
  std::vector<int> take();  // the signals received since the last call

 private:
  sigset_t mask_before_;
  FileDescriptor fd_;
};

}  // namespace colossal::cluster
