// Stop requests. On SIGINT (Ctrl-C), SIGTERM (from a launcher or scheduler) or SIGUSR1 (a
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

// From now on, this process ignores SIGPIPE: output to a pipe whose reader is gone is lost, and the
// process goes on.
void outlive_lost_readers();

inline constexpr std::array kStopSignals{SIGINT, SIGTERM, SIGUSR1};

bool any_stop_signal(const std::vector<int>& signals);

// Exit code of a run that stopped on request; starting the same command again resumes the run. It
// is EX_TEMPFAIL of sysexits.h; schedulers can be configured to restart a job that exits with it
// (Slurm: RequeueExit=75).
inline constexpr int kStoppedExitCode = 75;

// Classifies each stop signal by those before it. One request may arrive as several signals: GNU
// timeout signals a process and then its group, and a terminal signals a launcher and its ranks at
// once. So a SIGINT or SIGTERM insists, i.e. demands an end at once, only if it arrives a second or
// more after the first SIGINT or SIGTERM. SIGUSR1 never insists.
class StopRequests {
 public:
  using Clock = std::chrono::steady_clock;
  // first: no signal was taken before. repeated: to be ignored.
  enum class Meaning { first, repeated, insists };

  Meaning take(int signal, Clock::time_point now = Clock::now());
  bool any() const { return any_; }

 private:
  bool any_ = false;
  std::optional<Clock::time_point> asked_;  // time of the first SIGINT or SIGTERM
};

}  // namespace colossal::cluster
