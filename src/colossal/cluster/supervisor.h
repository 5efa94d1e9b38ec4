// The main loop of a launcher: supervises the ranks of one host until all have ended, and returns
// the exit code of the job.
#pragma once

#include <array>
#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "colossal/cluster/control_channel.h"
#include "colossal/cluster/failure.h"
#include "colossal/cluster/rank_process.h"
#include "colossal/cluster/signal_queue.h"
#include "colossal/cluster/stop_request.h"

namespace colossal::cluster {

// How long the other ranks may take to end after a rank has failed. With the default of 4 s in
// total, no rank is left after 5 s.
struct Grace {
  std::chrono::milliseconds by_themselves{1500};  // from the failure until SIGTERM is sent
  // From SIGTERM until ranks of this program are asked for their stacks, and others killed.
  std::chrono::milliseconds after_sigterm{2000};
  std::chrono::milliseconds for_stacks{500};  // from then until SIGKILL is sent
};

struct SupervisorOptions {
  Grace grace = {};
  // Whether the ranks run a program of ours, which saves its state and exits with kStoppedExitCode
  // after a stop signal (see local_launcher.h); false: any other program.
  bool program_is_ours = false;
  // For elastic jobs: returns whether the job should go on with other ranks. The Supervisor calls
  // it about five times a second, also when it handles an event. Once it returns true, the
  // Supervisor asks the ranks of all hosts to stop; paused() then returns true after run().
  std::function<bool()> pause_wanted = {};
  // For elastic jobs: whether SIGTERM and SIGUSR1 mean that only this host leaves the job. The
  // launcher then asks the first host's launcher for a pause (HostMessage::Kind::leave). A SIGTERM
  // that insists kills only the ranks of this host.
  bool leaves_alone = false;
};

// The signals that a Supervisor handles.
inline constexpr std::array kSupervisedSignals{SIGINT, SIGTERM, SIGUSR1, SIGHUP, SIGTSTP, SIGCHLD};

// Waits for the ranks of this host and reacts to these events:
//   - A rank fails, on this or another host: reports the rank on stderr, gives the other ranks
//     the Grace time to end by themselves, then sends SIGTERM, then SIGKILL.
//   - The first stop signal, i.e. SIGINT, SIGTERM or SIGUSR1 (stop_request.h), if no rank has
//     failed: passes it on to the ranks of this host, and asks the other launchers to send SIGTERM
//     to their ranks. Ranks that do not run a program of ours get SIGTERM in place of any stop
//     signal (`program_is_ours`, below). Ranks may finish their step and save without a time limit.
//   - A stop signal that insists, i.e. SIGINT or SIGTERM a second or more after the first SIGINT or
//     SIGTERM: sends SIGKILL to the ranks of all hosts. Other further stop signals are ignored.
//   - A rank exits with 75 (kStoppedExitCode) although no stop was requested: asks all other ranks,
//     on all hosts, to stop.
//   - SIGHUP: logs it and goes on.
//   - SIGTSTP (Ctrl-Z): suspends the ranks of this host and the launcher, and resumes the ranks
//     when the launcher is resumed.
class Supervisor {
 public:
  // ranks: of this host, already started. channel: to the launchers of the other hosts. signals: a
  // queue of kSupervisedSignals. Both must outlive this object.
  Supervisor(std::vector<RankProcess> ranks, ControlChannel& channel, SignalQueue& signals,
             SupervisorOptions options);

  // Waits until all ranks of this host have ended. On the first host, then also waits until all
  // other hosts are done or lost, unless this launcher has sent SIGKILL to its ranks. Returns the
  // exit code of the job, by the first of these lines that applies:
  //   - If the job failed, Failure::exit_code of the cause (failure.h): the exit code of the rank;
  //     3 if a signal from elsewhere ended the rank or a host was lost; 2 if a program did not
  //     start on another host.
  //   - 128 + signal, if the launcher killed ranks because a stop signal insisted. Here and below,
  //     `signal` is the last stop signal that this launcher itself received and did not ignore,
  //     even if its ranks got SIGTERM instead. It is SIGTERM if this launcher received none.
  //   - 75 (kStoppedExitCode), if a rank exited with 75, or if the launcher's stop signal ended
  //     ranks of a program of ours that had no StopListener yet.
  //   - 128 + signal, if the stop signal ended ranks of a program that is not ours.
  //   - 0, if all ranks of this host exited with 0 and no other host reported a failure.
  int run();

  // The following are for elastic jobs; call them after run().
  // Whether the ranks have stopped for a pause, and the job should go on: nobody has asked to stop
  // the job, no rank has failed, and not all ranks were done.
  bool paused() const;
  // Whether starting the ranks again may help: a rank died or hung, or a host was lost, and nobody
  // has asked to stop the job.
  bool may_restart() const;
  // Whether a rank of this host has made progress (send_progress()).
  bool has_progressed();
  // Whether the ranks were asked to stop for a pause, whatever came of it.
  bool pausing() const { return pausing_; }
  // Whether somebody has asked to stop the job, or this host to leave it.
  bool asked_to_end() const { return stop_requested_ || leave_requests_.any(); }
  // Whether the ranks of this host have refused to run with exit code 2, a wrong configuration.
  bool configuration_failed() const;
  // See JobOutcome.
  bool all_failed_alike() const { return outcome_.all_failed_alike(); }
  // Returns the host of the failure that is the cause; "" if the job has not failed, or if the
  // cause is not known because all failed ranks gave up waiting for another.
  std::string host_of_cause() const;

 private:
  using Clock = std::chrono::steady_clock;
  enum class Stage {  // in the order in which they follow each other
    running,          // no failure
    failing,          // a rank has failed, and the others may end by themselves
    terminated,       // SIGTERM was sent to the ranks after a failure
    asked,            // SIGQUIT was sent to the ranks that had not ended (base/thread_stacks.h)
    killed            // SIGKILL was sent to the ranks
  };

  // Waits for a signal, a message of another launcher, or deadline_.
  void wait();
  // The loop of run() calls handle_signals(), handle_ends(), handle_messages() and
  // handle_deadline(). In this order, they act on the queued signals, on ranks that have ended, on
  // the messages of other launchers, and on deadline_ if it has passed.
  void handle_signals();
  void handle_stop_signal(int signal);   // called by handle_signals()
  void handle_leave_signal(int signal);  // called by handle_stop_signal(), if leaves_alone
  // Asks the ranks of all hosts to stop if options_.pause_wanted() returns true.
  void handle_pause();
  // Asks the ranks of this host to stop, for a pause.
  void pause();
  void handle_messages();
  void handle_ends();
  void handle_deadline();
  // Called after each failure: starts the grace time unless it runs already.
  void begin_failing();
  // Logs the message of the cause (outcome_.message()), or message_of_silent_rank() if there is
  // one.
  void log_cause();
  // Returns a message about the only rank of this host that still runs, if all failed ranks exited
  // with 3, i.e. gave up waiting for another rank. Otherwise nullopt.
  std::optional<std::string> message_of_silent_rank() const;
  // Logs the messages of the failures other than the cause, and the ranks that had to be killed.
  void log_other_ranks() const;
  // Sends `signal` to the ranks of this host, unless a stop signal was already sent or a rank has
  // failed.
  void request_stop(int signal);
  void kill_all();                 // of this host
  void send_to_ranks(int signal);  // of this host
  void suspend();
  bool all_ended() const;  // whether all ranks of this host have ended
  bool finished() const;   // whether run() may return
  int exit_code() const;

  std::vector<RankProcess> ranks_;
  ControlChannel& channel_;
  SignalQueue& signals_;
  SupervisorOptions options_;
  JobOutcome outcome_;
  Stage stage_ = Stage::running;
  std::optional<Clock::time_point> deadline_;  // end of the grace time of stage_
  bool cause_named_ = false;                   // whether log_cause() was called
  std::string named_;                          // the text that was logged as the cause
  bool done_sent_ = false;                     // whether channel_.send_done() was called
  bool pausing_ = false;                       // whether the ranks were asked to stop for a pause
  bool stop_requested_ = false;  // whether a stop of the whole job was requested, on any host
  StopRequests stop_requests_;
  StopRequests leave_requests_;  // signals that mean that only this host leaves
  bool stop_sent_ = false;       // whether a stop signal was sent to the ranks of this host
  int stop_signal_ = SIGTERM;    // the last received stop signal whose meaning was not `repeated`
};

}  // namespace colossal::cluster
