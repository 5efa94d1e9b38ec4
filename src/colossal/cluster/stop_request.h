// An orderly end on request: on SIGINT (Ctrl-C), SIGTERM (a launcher or scheduler) or SIGUSR1 (a
// scheduler's notice before its time limit) a run finishes its step, saves and ends.
//
// SIGHUP is no such request: a run outlives the terminal from which it was started.
#pragma once

#include <array>
#include <chrono>
#include <csignal>
#include <optional>
#include <vector>

namespace colossal::cluster {

// From now on the loss of a reader of our output (SIGPIPE) does not end this process. What is
// written to it is lost, as are messages to a terminal that is gone.
void outlive_lost_readers();

inline constexpr std::array kStopSignals{SIGINT, SIGTERM, SIGUSR1};

bool any_stop_signal(const std::vector<int>& signals);

// The exit code of a run that stopped on request and that the same command goes on with:
// EX_TEMPFAIL of sysexits.h, on which schedulers can be told to start a job again (Slurm:
// RequeueExit=75).
inline constexpr int kStoppedExitCode = 75;

// Tells what each stop signal means after those before it. Some senders signal a process and its
// group (GNU timeout), and a terminal signals a launcher and its ranks at once: what comes within a
// second is one request. SIGINT or SIGTERM later than that insists. SIGUSR1 never insists, and the
// signal that follows this notice does not either.
class StopRequests {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Meaning { first, repeated, insists };

  Meaning take(int signal, Clock::time_point now = Clock::now());
  bool any() const { return any_; }

 private:
  bool any_ = false;
  std::optional<Clock::time_point> asked_;  // by SIGINT or SIGTERM, the first time
};

}  // namespace colossal::cluster
