// Watches the ranks of one host until the last has ended.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "colossal/cluster/control_channel.h"
#include "colossal/cluster/failure.h"
#include "colossal/cluster/rank_process.h"
#include "colossal/cluster/signal_queue.h"

namespace colossal::cluster {

// How long the other ranks have, once one has failed; 3.5 s in all, so that none is left after 5.
struct Grace {
  std::chrono::milliseconds by_themselves{1500};  // until SIGTERM
  std::chrono::milliseconds after_sigterm{2000};  // until SIGKILL
};

// While all is well it only waits. It acts on
//   a rank that fails, here or on another host: that rank is named on stderr, the others get the
//     grace to end by themselves, then SIGTERM, then SIGKILL;
//   the first stop signal (stop_request.h): SIGTERM to all ranks, which finish their step and save,
//     for as long as that takes; SIGINT or SIGTERM once more: SIGKILL. Both on all hosts;
//   SIGTSTP (Ctrl-Z): the ranks of this host are stopped and continued with the launcher.
class Supervisor {
 public:
  Supervisor(std::vector<RankProcess> ranks, ControlChannel channel, SignalQueue& signals,
             const Grace& grace);

  // Returns the exit code of the job:
  //   0            all ranks of this host exited with 0, and no other host told of a failure
  //   3            a rank was killed by a signal, or a host was lost
  //   c            a rank exited with c: that of the cause, see JobOutcome
  //   128 + signal ranks had to be ended by us after this signal asked to stop
  int run();

 private:
  using Clock = std::chrono::steady_clock;
  enum class Stage { running, failing, terminated, killed };

  void wait();
  void handle_signals();
  void handle_stop_signal(int signal);
  void handle_messages();
  void handle_ends();
  void handle_deadline();
  void begin_failing();
  void name_cause();
  void request_stop();
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
  bool done_sent_ = false;
  bool stop_sent_ = false;  // to the ranks
  int stop_signal_ = 0;     // the one that this launcher got
};

}  // namespace colossal::cluster
