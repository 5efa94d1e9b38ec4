// Receives stop requests (stop_request.h) in a rank's process.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <thread>

#include "colossal/base/error.h"
#include "colossal/base/pipe.h"
#include "colossal/cluster/signal_queue.h"
#include "colossal/cluster/stop_request.h"

namespace colossal::cluster {

// Thrown by end_set_up() if a run was asked to stop before its first step.
class StoppedInSetUp : public Error {
 public:
  StoppedInSetUp() : Error("asked to stop before the first step") {}
};

// While this exists, its thread receives the stop signals of this process and answers them on
// stderr:
//   before end_set_up(), when no work can be lost: the process exits with kStoppedExitCode after
//     half a second, in which code that checks requested() can clean up. Destroying this meanwhile
//     prevents that exit;
//   after end_set_up(): requested() returns true, and the run should end when it is ready;
//   a repeated request that insists (StopRequests): the process exits with 128 + signal at once.
// SIGHUP (the terminal is gone) is logged, and the process goes on. Signals that the process was
// started to ignore (nohup, a shell's background job) stay ignored.
//
// Create this before other threads, so that they leave the signals to this thread. The thread that
// constructs this must destroy it.
class StopListener {
 public:
  StopListener();
  ~StopListener();
  StopListener(const StopListener&) = delete;
  StopListener& operator=(const StopListener&) = delete;

  // Ends the set-up. From now on, a stop request is answered with "SIGTERM: {answer}"; `answer`
  // must not be empty. Throws StoppedInSetUp if a request has already arrived.
  void end_set_up(std::string answer);

  // Whether a request has arrived, and whether it arrived during set-up. Thread-safe.
  bool requested() const noexcept { return requested_; }
  bool requested_in_set_up() const;

 private:
  void listen();
  void take(int signal);
  std::string answer_request();
  bool wait_for_end(int milliseconds) const;

  SignalQueue signals_;
  Pipe end_;  // the destructor closes it for writing
  mutable std::mutex mutex_;
  std::string answer_;  // "" during set-up
  std::atomic<bool> requested_ = false;
  StopRequests requests_;
  std::thread thread_;
};

}  // namespace colossal::cluster
