#include "colossal/cluster/supervisor.h"

#include <poll.h>

#include <algorithm>
#include <csignal>

#include "colossal/base/log.h"

namespace colossal::cluster {
namespace {

constexpr int kPausePoll = 200;  // milliseconds between two calls of pause_wanted()
constexpr int kConfigurationFailed = 2, kAnotherRankDied = 3;  // exit codes

}  // namespace

Supervisor::Supervisor(std::vector<RankProcess> ranks, ControlChannel& channel,
                       SignalQueue& signals, SupervisorOptions options)
    : ranks_(std::move(ranks)),
      channel_(channel),
      signals_(signals),
      options_(std::move(options)),
      outcome_(static_cast<int>(ranks_.size())) {}

int Supervisor::run() {
  // Handles events before it waits: ranks may have ended, and messages may have come, while other
  // ranks were started.
  while (true) {
    handle_signals();
    handle_messages();
    handle_ends();
    handle_deadline();
    handle_pause();
    if (finished()) break;
    wait();
  }
  if (outcome_.failed()) {
    if (!cause_named_) log_cause();
    log_other_ranks();
  }
  return exit_code();
}

void Supervisor::wait() {
  std::vector<pollfd> polled{{signals_.fd(), POLLIN, 0}};
  channel_.add_to(polled);
  int milliseconds = -1;
  if (deadline_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline_ - Clock::now());
    milliseconds = static_cast<int>(std::max<int64_t>(0, left.count()));
  }
  if (options_.pause_wanted && (milliseconds < 0 || milliseconds > kPausePoll)) {
    milliseconds = kPausePoll;
  }
  poll(polled.data(), polled.size(), milliseconds);
}

void Supervisor::handle_signals() {
  for (const int signal : signals_.take()) {
    if (signal == SIGTSTP) {
      suspend();
    } else if (signal == SIGHUP) {
      log::info("SIGHUP: the terminal was closed; the ranks continue");
    } else if (signal != SIGCHLD) {
      handle_stop_signal(signal);
    }
  }
}

void Supervisor::handle_stop_signal(int signal) {
  if (options_.leaves_alone && signal != SIGINT) return handle_leave_signal(signal);
  const StopRequests::Meaning meaning = stop_requests_.take(signal);
  if (meaning == StopRequests::Meaning::repeated) return;
  stop_signal_ = signal;
  stop_requested_ = true;
  if (meaning == StopRequests::Meaning::insists) {
    channel_.send({HostMessage::Kind::kill, {}});
    kill_all();
  } else if (stage_ == Stage::running) {
    // Ranks of our own program log themselves what they do.
    if (!options_.program_is_ours) {
      log::info("{}: asking the ranks to end; interrupt again to end them at once",
                signal_name(signal));
    }
    channel_.send({HostMessage::Kind::stop, {}});
    request_stop(options_.program_is_ours ? signal : SIGTERM);
  } else {
    channel_.send({HostMessage::Kind::stop, {}});  // so that an elastic job does not start again
  }
}

void Supervisor::handle_leave_signal(int signal) {
  switch (leave_requests_.take(signal)) {
    case StopRequests::Meaning::repeated:
      break;
    case StopRequests::Meaning::first:
      log::info("{}: this host leaves the job when the current step is saved", signal_name(signal));
      channel_.send({HostMessage::Kind::leave, {}});
      break;
    case StopRequests::Meaning::insists:
      stop_signal_ = signal;
      kill_all();
      break;
  }
}

void Supervisor::handle_messages() {
  for (HostMessage& message : channel_.receive()) {
    switch (message.kind) {
      case HostMessage::Kind::stop:
        stop_requested_ = true;
        request_stop(SIGTERM);
        break;
      case HostMessage::Kind::stopped:
        // In a pause, the ranks of another host may end before its launcher hears of the pause.
        if (!pausing_) stop_requested_ = true;
        request_stop(SIGTERM);
        break;
      case HostMessage::Kind::kill:
        stop_requested_ = true;
        kill_all();
        break;
      case HostMessage::Kind::pause:
        pause();
        break;
      case HostMessage::Kind::leave:
        handle_pause();  // now, because the host's ranks may already stop
        break;
      case HostMessage::Kind::failed:
        outcome_.add_remote(std::move(message.failure));
        begin_failing();
        break;
    }
  }
}

void Supervisor::handle_pause() {
  if (pausing_ || stop_sent_ || stage_ != Stage::running || !options_.pause_wanted) return;
  if (all_ended() || !options_.pause_wanted()) return;
  channel_.send({HostMessage::Kind::pause, {}});
  pause();
}

void Supervisor::pause() {
  pausing_ = true;
  // Not SIGTERM for a program of ours: a SIGTERM of the user that follows would end it at once.
  request_stop(options_.program_is_ours ? SIGUSR1 : SIGTERM);
}

void Supervisor::handle_ends() {
  for (RankProcess& rank : ranks_) {
    if (rank.ended() || !rank.check_ended()) continue;
    // A rank that ends after this launcher's SIGTERM to end a failed job has not stopped by itself.
    const bool sent_sigterm = stage_ >= Stage::terminated;
    if (rank.stopped() && (stop_sent_ || !sent_sigterm)) {
      outcome_.note_stopped();
      if (!stop_sent_) {
        channel_.send({HostMessage::Kind::stopped, {}});
        request_stop(SIGTERM);
      }
    }
    if (std::optional<Failure> failure = rank.failure()) {
      channel_.send({HostMessage::Kind::failed, *failure});
      outcome_.add_local(std::move(*failure));
      begin_failing();
    }
  }
  if (all_ended() && !done_sent_) {
    channel_.send_done();
    done_sent_ = true;
  }
}

void Supervisor::begin_failing() {
  // A failure with only an exit code is logged later: all ranks may be about to end with it.
  if (!outcome_.failed()) return;
  if (outcome_.cause().sudden && !cause_named_) log_cause();
  if (stage_ != Stage::running) return;
  stage_ = Stage::failing;
  deadline_ = Clock::now() + options_.grace.by_themselves;
}

void Supervisor::handle_deadline() {
  if (!deadline_ || Clock::now() < *deadline_) return;
  if (stage_ == Stage::failing) {
    if (!cause_named_) log_cause();
    stage_ = Stage::terminated;
    deadline_ = Clock::now() + options_.grace.after_sigterm;
    send_to_ranks(SIGTERM);
  } else if (stage_ == Stage::terminated && options_.program_is_ours) {
    stage_ = Stage::asked;
    deadline_ = Clock::now() + options_.grace.for_stacks;
    log::info("ranks that do not end write what they do:");
    send_to_ranks(SIGQUIT);
  } else {
    kill_all();
  }
}

void Supervisor::log_cause() {
  cause_named_ = true;
  named_ = message_of_silent_rank().value_or(outcome_.message());
  if (!named_.empty()) log::error("{}", named_);
}

// If all ranks but one failed because another one did not come, returns a message that names the
// rank that still runs: the failed ones may have blamed each other.
std::optional<std::string> Supervisor::message_of_silent_rank() const {
  const auto runs = [](const RankProcess& rank) { return !rank.ended(); };
  if (!outcome_.all_blame_another_rank() || std::ranges::count_if(ranks_, runs) != 1) {
    return std::nullopt;
  }
  return fmt::format("{} still runs, and the other ranks have given up waiting",
                     std::ranges::find_if(ranks_, runs)->who());
}

// Logs what each of the other ranks reported.
void Supervisor::log_other_ranks() const {
  if (outcome_.all_failed_alike()) return;
  std::vector<std::string> lines = outcome_.messages_of_ranks();
  std::erase(lines, named_);
  for (const RankProcess& rank : ranks_) {
    if (rank.killed_by_us()) lines.push_back(fmt::format("{} did not end by itself", rank.who()));
  }
  if (!lines.empty())
    log::info("the other ranks:\n           {}", fmt::join(lines, "\n           "));
}

void Supervisor::request_stop(int signal) {
  if (stop_sent_ || stage_ != Stage::running) return;
  stop_sent_ = true;
  send_to_ranks(signal);
}

void Supervisor::kill_all() {
  stage_ = Stage::killed;
  deadline_.reset();
  send_to_ranks(SIGKILL);
}

void Supervisor::send_to_ranks(int signal) {
  for (RankProcess& rank : ranks_) rank.send_signal(signal);
}

void Supervisor::suspend() {
  send_to_ranks(SIGSTOP);
  raise(SIGSTOP);
  send_to_ranks(SIGCONT);
}

bool Supervisor::all_ended() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const RankProcess& rank) { return rank.ended(); });
}

bool Supervisor::finished() const {
  return all_ended() && (channel_.may_leave() || stage_ == Stage::killed);
}

bool Supervisor::paused() const {
  return pausing_ && !stop_requested_ && !outcome_.failed() && exit_code() != 0;
}

bool Supervisor::may_restart() const {
  if (stop_requested_ || !outcome_.failed()) return false;
  const Failure& cause = outcome_.cause();
  return cause.exit_code == kAnotherRankDied ||
         (cause.sudden && cause.exit_code != kConfigurationFailed);
}

bool Supervisor::has_progressed() {
  return std::ranges::any_of(ranks_, [](RankProcess& rank) { return rank.has_progressed(); });
}

bool Supervisor::configuration_failed() const {
  return !stop_requested_ && outcome_.failed() && !outcome_.cause().sudden &&
         outcome_.cause().exit_code == kConfigurationFailed;
}

std::string Supervisor::host_of_cause() const {
  if (!outcome_.failed() || outcome_.all_blame_another_rank()) return "";
  return outcome_.cause().host;
}

int Supervisor::exit_code() const {
  if (outcome_.failed()) return outcome_.cause().exit_code;
  const bool ended_by_us = std::any_of(ranks_.begin(), ranks_.end(),
                                       [](const RankProcess& rank) { return rank.ended_by_us(); });
  if (ended_by_us && stage_ == Stage::killed) return 128 + stop_signal_;
  if (outcome_.stopped() || (ended_by_us && options_.program_is_ours)) return kStoppedExitCode;
  return ended_by_us ? 128 + stop_signal_ : 0;
}

}  // namespace colossal::cluster
