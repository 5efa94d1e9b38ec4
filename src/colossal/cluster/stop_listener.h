// Receives stop requests (stop_request.h) in the process of a rank. The main program creates a
// StopListener, and the training loop asks it at each step whether to stop.
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

// While a StopListener exists, a thread of it receives the stop signals of this process (SIGINT,
// SIGTERM and SIGUSR1). At the first stop signal, it logs an answer to stderr and acts:
//   - Before end_set_up(), no work can be lost: requested() becomes true, and the process exits
//     with kStoppedExitCode half a second later. Code that checks requested() can clean up until
//     then. Destroying the StopListener in this time prevents the exit.
//   - After end_set_up(), requested() becomes true, and the run should end when it is ready.
// It ignores later stop signals, except that a SIGINT or SIGTERM a second or more after the first
// SIGINT or SIGTERM ends the process at once, with exit code 128 + signal. On SIGHUP, which means
// that the terminal is gone, it only logs a message. Signals that this process already ignored, as
// under nohup, stay ignored.
//
// Create the StopListener before other threads start, so that they inherit the signals that it
// blocks.
// Destroy it on the constructing thread.
class StopListener {
 public:
  StopListener();
  ~StopListener();
  StopListener(const StopListener&) = delete;
  StopListener& operator=(const StopListener&) = delete;

  // Ends the set-up. From now on, a stop signal is answered with "SIGTERM: " (or the name of
  // another signal) + `answer`, which must not be empty. Throws StoppedInSetUp if a stop signal has
  // already arrived.
  void end_set_up(std::string answer);

  // Whether a stop signal has arrived. Thread-safe.
  bool requested() const noexcept { return requested_; }
  // Whether a stop signal has arrived before end_set_up(). Thread-safe.
  bool requested_in_set_up() const;

 private:
  void listen();          // the body of thread_
  void take(int signal);  // acts on a received signal
  // Records a stop request and returns answer_.
  std::string answer_request();
  // Waits for a signal or for the destructor, at most `milliseconds` (-1: without limit). Returns
  // whether the destructor was called.
  bool wait_for_end(int milliseconds) const;

  SignalQueue signals_;
  Pipe end_;                  // the destructor closes the write end, which ends thread_
  mutable std::mutex mutex_;  // guards answer_
  std::string answer_;        // empty before end_set_up()
  std::atomic<bool> requested_ = false;
  StopRequests requests_;
  std::thread thread_;
};

}  // namespace colossal::cluster
