// How a rank hears of stop requests (stop_request.h).
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

// Thrown where a run ends because it was asked to stop before its first step.
class StoppedInSetUp : public Error {
 public:
  StoppedInSetUp() : Error("asked to stop before the first step") {}
};

// While it lives, a thread of it takes the stop signals of this process and answers them on stderr:
//   in set-up, when nothing is done that could be lost: the process ends with kStoppedExitCode,
//     half a second later, so that what looks at requested() can tidy up before;
//   after end_set_up(): requested() says so, and the run is to end in its own time;
//   a request that insists (StopRequests): the process ends with 128 + signal, at once.
// It also hears of a terminal that went away, says so, and lets the process go on. Signals that the
// process was started to ignore (nohup, a shell's background job) stay ignored.
//
// Made before other threads, which then leave these signals to it, and destroyed by its maker.
class StopListener {
 public:
  StopListener();
  ~StopListener();
  StopListener(const StopListener&) = delete;
  StopListener& operator=(const StopListener&) = delete;

  // From now on a stop request is answered with this text after the name of the signal: "SIGTERM:
  // {answer}". Throws StoppedInSetUp if a request has arrived already.
  void end_set_up(std::string answer);

  bool requested() const noexcept { return requested_; }
  bool requested_in_set_up() const;

 private:
  void listen();
  void take(int signal);
  std::string answer_request();
  bool wait_for_end(int milliseconds) const;

  SignalQueue signals_;
  Pipe end_;  // closed for writing by the destructor
  mutable std::mutex mutex_;
  std::string answer_;  // "" in set-up
  std::atomic<bool> requested_ = false;
  StopRequests requests_;
  std::thread thread_;
};

}  // namespace colossal::cluster
