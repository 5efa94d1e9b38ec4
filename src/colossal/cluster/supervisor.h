// Watches the ranks of one host until the last has ended.
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

// How long the other ranks have, once one has failed; 3.5 s in all, so that none is left after 5.
struct Grace {
  std::chrono::milliseconds by_themselves{1500};  // until SIGTERM
  std::chrono::milliseconds after_sigterm{2000};  // until SIGKILL
};

// While all is well it only waits. It acts on
//   a rank that fails, here or on another host: that rank is named on stderr, the others get the
//     grace to end by themselves, then SIGTERM, then SIGKILL;
//   the first stop signal (stop_request.h): all ranks of all hosts get it (as SIGTERM, if the
//     program is not ours), finish their step and save, for as long as that takes;
//   a stop signal that insists: all ranks of all hosts get SIGKILL;
//   a rank that ends with kStoppedExitCode though nothing was asked of us: the others are asked;
//   SIGHUP: it says so, and goes on;
//   SIGTSTP (Ctrl-Z): the ranks of this host are stopped and continued with the launcher.
inline constexpr std::array kSupervisedSignals{SIGINT, SIGTERM, SIGUSR1, SIGHUP, SIGTSTP, SIGCHLD};

class Supervisor {
 public:
  // signals: kSupervisedSignals. program_is_ours: see LaunchOptions.
  Supervisor(std::vector<RankProcess> ranks, ControlChannel channel, SignalQueue& signals,
             const Grace& grace, bool program_is_ours);

  // Returns the exit code of the job:
  //   0            all ranks of this host exited with 0, and no other host told of a failure
  //   3            a rank was killed by a signal, or a host was lost
  //   c            a rank exited with c: that of the cause, see JobOutcome
  //   75           asked to stop, and ranks ended with kStoppedExitCode (errors of ranks that lost
  //                these do not count), or a program of ours had not begun
  //   128 + signal ranks were ended by us after this signal asked to stop, or insisted
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
  void name_cause();
  std::optional<std::string> message_of_silent_rank() const;
  void tell_of_others() const;
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
  std::optional<Clock::time_point> deadline_;  // of the stage
  bool cause_named_ = false;
  std::string named_;  // as such
  bool done_sent_ = false;
  bool program_is_ours_;
  StopRequests stop_requests_;
  bool stop_sent_ = false;     // to the ranks
  int stop_signal_ = SIGTERM;  // the one that this launcher got last
};

}  // namespace colossal::cluster
