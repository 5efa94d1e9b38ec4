// Signals as something to poll for. The launcher's one thread waits for them, for its ranks and for
// its sockets in one place; no code of ours runs inside a signal handler.
#pragma once

#include <csignal>
#include <vector>

#include "colossal/cluster/file_descriptor.h"

namespace colossal::cluster {

// While it lives, stop signals (stop_request.h; those that were ignored stay so), SIGTSTP and
// SIGCHLD of this process wait here. Made before other threads are started: a thread that does not
// block these signals would take them.
class SignalQueue {
 public:
  SignalQueue();
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
