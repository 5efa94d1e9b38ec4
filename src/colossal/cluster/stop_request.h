// Orderly stop on request. On SIGINT (Ctrl-C), SIGTERM (a launcher or scheduler) or SIGUSR1 (a
// scheduler's notice before its time limit), a run finishes its step, saves a checkpoint and ends.
//
// SIGHUP is not a stop request: a run outlives the terminal in which it was started.
#pragma once

#include <array>
#include <chrono>
#include <csignal>
#include <optional>
#include <vector>

namespace colossal::cluster {

// From now on, SIGPIPE does not end this process. Output to a closed pipe is lost, like messages to
// a closed terminal.
void outlive_lost_readers();

inline constexpr std::array kStopSignals{SIGINT, SIGTERM, SIGUSR1};

bool any_stop_signal(const std::vector<int>& signals);

// Exit code of a run that stopped on request; the same command resumes the run. EX_TEMPFAIL of
// sysexits.h, on which schedulers can be configured to restart a job (Slurm: RequeueExit=75).
inline constexpr int kStoppedExitCode = 75;

// Classifies each stop signal by the signals before it. Some senders signal a process and its group
// (GNU timeout), and a terminal signals a launcher and its ranks at once, so all signals within a
// second are one request. A later SIGINT or SIGTERM insists. SIGUSR1 never insists, and the first
// signal after SIGUSR1 does not insist either.
class StopRequests {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Meaning { first, repeated, insists };

  Meaning take(int signal, Clock::time_point now = Clock::now());
  bool any() const { return any_; }

 private:
  bool any_ = false;
  std::optional<Clock::time_point> asked_;  // time of the first SIGINT or SIGTERM
};

}  // namespace colossal::cluster
