// Signals as something to poll for, so that no code of ours runs inside a signal handler: the
// launcher's one thread waits for them, for its ranks and for its sockets in one place.
#pragma once

#include <csignal>
#include <span>
#include <vector>

#include "colossal/base/file_descriptor.h"

namespace colossal::cluster {

// While it lives, these signals of this process wait here; those that the process ignored before
// stay ignored, but for SIGCHLD. Made before other threads are started: a thread that does not
// block these signals would take them.
class SignalQueue {
 public:
  explicit SignalQueue(std::span<const int> signals);
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  int fd() const { return fd_.get(); }
  std::vector<int> take();  // those that came since the last call

 private:
  sigset_t mask_before_;
  FileDescriptor fd_;
};

}  // namespace colossal::cluster
