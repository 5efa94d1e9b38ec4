// Supervises the ranks of one host until the last one has ended.
#pragma once

#include <array>
#include <chrono>
#include <optional>
#include <vector>

#include "colossal/cluster/control_channel.h"
#include "colossal/cluster/failure.h"
#include "colossal/cluster/rank_process.h"
#include "colossal/cluster/signal_queue.h"
#include "colossal/cluster/stop_request.h"

namespace colossal::cluster {

// How long the other ranks may take to end after one has failed: by default 3.5 s in total, so that
// no rank is left after 5 s.
struct Grace {
  std::chrono::milliseconds by_themselves{1500};  // until SIGTERM
  std::chrono::milliseconds after_sigterm{2000};  // until SIGKILL
};

inline constexpr std::array kSupervisedSignals{SIGINT, SIGTERM, SIGUSR1, SIGHUP, SIGTSTP, SIGCHLD};

// Waits for the ranks of this host and reacts to these events:
//   a rank fails, on this or another host: reports the rank on stderr, gives the other ranks the
//     grace time to end by themselves, then sends SIGTERM, then SIGKILL;
//   the first stop signal (stop_request.h): passes it on to the ranks of this host (as SIGTERM if
//     the program is not ours), and as SIGTERM to those of other hosts. They finish their step and
//     save, without a time limit;
//   a stop signal that insists: sends SIGKILL to all ranks of all hosts;
//   a rank exits with kStoppedExitCode without a request: asks all other ranks to stop;
//   SIGHUP: logs it and goes on;
//   SIGTSTP (Ctrl-Z): suspends and resumes the ranks of this host with the launcher.
class Supervisor {
 public:
  // signals: a queue of kSupervisedSignals; must outlive this. program_is_ours: see LaunchOptions.
  Supervisor(std::vector<RankProcess> ranks, ControlChannel channel, SignalQueue& signals,
             const Grace& grace, bool program_is_ours);

  // Waits until all ranks of this host have ended, and on the first host until all other hosts are
  // done. Returns the exit code of the job:
  //   0            all ranks of this host exited with 0, and no other host reported a failure
  //   3            a signal that we did not send killed a rank, or a host was lost
  //   c            a rank exited with c and is the cause, see JobOutcome
  //   75           ranks exited with kStoppedExitCode (exits of other ranks with 3 do not count),
  //   or
  //                the stop signal ended ranks of a program of ours that had no StopListener yet
  //   128 + signal ranks of another program ended by the stop signal, or we killed the ranks
  //   because
  //                a stop signal insisted
  int run();

 private:
  using Clock = std::chrono::steady_clock;
  enum class Stage { running, failing, terminated, killed };

  void wait();
  void handle_signals();
  void handle_stop_signal(int signal);
  void ask_to_stop(int signal);
  void handle_messages();
  void handle_ends();
  void handle_deadline();
  void begin_failing();
  void log_cause();
  std::optional<std::string> message_of_silent_rank() const;
  void log_other_ranks() const;
  void request_stop(int signal);
  void kill_all();
  void send_to_ranks(int signal);
  void suspend();
  bool all_ended() const;
  bool finished() const;
  int exit_code() const;

  std::vector<RankProcess> ranks_;
  ControlChannel channel_;
  SignalQueue& signals_;
  Grace grace_;
  JobOutcome outcome_;
  Stage stage_ = Stage::running;
  std::optional<Clock::time_point> deadline_;  // end of the grace time of stage_
  bool cause_named_ = false;
  std::string named_;  // the text that was logged as the cause
  bool done_sent_ = false;
  bool program_is_ours_;
  StopRequests stop_requests_;
  bool stop_sent_ = false;     // whether a stop signal was sent to the ranks of this host
  int stop_signal_ = SIGTERM;  // the last stop signal that this launcher received
};

}  // namespace colossal::cluster
