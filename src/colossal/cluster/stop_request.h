// Stop requests: the signals that ask a run to finish its step, save a checkpoint and end. They are
// SIGINT (Ctrl-C), SIGTERM (from a launcher or scheduler) and SIGUSR1 (a scheduler's notice before
// its time limit). SIGHUP is no stop request, so a run outlives the terminal in which it was
// started.
//
// Ranks receive stop requests with StopListener (stop_listener.h), launchers with Supervisor
// (supervisor.h).
#pragma once

#include <array>
#include <chrono>
#include <csignal>
#include <optional>
#include <vector>

namespace colossal::cluster {

// Makes this process ignore SIGPIPE. When the reader of its output pipe is gone, the process then
// goes on and the output is lost.
void ignore_sigpipe();

inline constexpr std::array kStopSignals{SIGINT, SIGTERM, SIGUSR1};

// Whether `signals` contains a stop signal.
bool any_stop_signal(const std::vector<int>& signals);

// Exit code of a run that stopped on request; starting the same command again resumes the run. It
// is EX_TEMPFAIL of sysexits.h. Schedulers can be configured to restart a job that exits with it
// (Slurm: RequeueExit=75).
inline constexpr int kStoppedExitCode = 75;

// Decides what each stop signal means, given the signals before it. One request may arrive as
// several signals: GNU timeout signals a process and then its group, and a terminal signals a
// launcher and its ranks at once. So a further signal is ignored, with one exception: a SIGINT or
// SIGTERM a second or more after the first SIGINT or SIGTERM demands an end at once.
class StopRequests {
 public:
  using Clock = std::chrono::steady_clock;
  enum class Meaning {
    first,     // the first stop signal: end when the state is saved
    repeated,  // belongs to the same request: ignore it
    insists    // SIGINT or SIGTERM, a second or more after the first SIGINT or SIGTERM: end at once
  };

  // Returns the meaning of a stop signal that arrives at time `now`. Call it for each signal, in
  // the order of arrival.
  Meaning take(int signal, Clock::time_point now = Clock::now());
  // Whether take() was called.
  bool any() const { return any_; }

 private:
  bool any_ = false;
  std::optional<Clock::time_point> asked_;  // time of the first SIGINT or SIGTERM
};

}  // namespace colossal::cluster
