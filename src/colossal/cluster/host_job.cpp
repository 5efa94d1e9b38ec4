#include "colossal/cluster/host_job.h"

#include <fmt/ranges.h>
#include <poll.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/cluster/restart_policy.h"
#include "colossal/cluster/signal_queue.h"
#include "colossal/cluster/socket.h"
#include "colossal/cluster/supervisor.h"

namespace colossal::cluster {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kFailed = 1, kBadConfiguration = 2;  // exit codes

// Hosts that join within this time are added together.
constexpr std::chrono::milliseconds kSettle{500};

// Starts the ranks. If that fails, tells the other hosts, whose ranks would wait in vain.
std::vector<RankProcess> start_or_tell_others(const LaunchOptions& launch, const HostTable& hosts,
                                              const JobStart& start, int store_socket,
                                              OrphanGuard& guard, ControlChannel& channel) {
  try {
    return start_ranks(launch, hosts, start, store_socket, guard);
  } catch (const ConfigError& error) {
    channel.send({HostMessage::Kind::failed, Failure{.who = hosts.describe(hosts.own_index),
                                                     .event = "was not started",
                                                     .text = error.what(),
                                                     .exit_code = 2,
                                                     .sudden = true,
                                                     .host = hosts.names[hosts.own_index]}});
    channel.send_done();
    throw;
  }
}

std::string names_of(const HostTable& hosts, const std::vector<int>& members) {
  return fmt::format("{}", fmt::join(hosts.of_members(members).names, ", "));
}

// The launcher of the first host.
class FirstHost {
 public:
  explicit FirstHost(const HostJob& job)
      : job_(job), signals_(kSupervisedSignals), policy_(job.max_restarts) {}

  int run() {
    const int all = job_.hosts.size();
    auto channel =
        ControlChannel::gather(job_.hosts, job_.port, is_elastic(), job_.min_hosts.value_or(all),
                               Clock::now() + job_.join_timeout, signals_);
    if (!channel) return stop_before_start();
    channel_ = std::move(*channel);
    try {
      std::optional<std::vector<int>> members = channel_.present();
      int exit_code = 0;
      while (members) members = run_once(*members, &exit_code);
      channel_.end(exit_code);
      return exit_code;
    } catch (const ConfigError&) {
      channel_.end(kBadConfiguration);
      throw;
    } catch (const Error&) {
      channel_.end(kFailed);
      throw;
    }
  }

 private:
  bool is_elastic() const { return job_.min_hosts.has_value(); }

  // Runs the ranks of these hosts until they end. Returns the hosts with which the job goes on;
  // nullopt if the job has ended, with *exit_code.
  std::optional<std::vector<int>> run_once(const std::vector<int>& members, int* exit_code) {
    const HostTable hosts = job_.hosts.of_members(members);
    FileDescriptor store = bind_socket(hosts.own_address(), 0);
    const JobStart start{bound_port(store), make_job_name(), members};
    channel_.start(start);
    const Clock::time_point started = Clock::now();
    std::vector<RankProcess> ranks =
        start_or_tell_others(job_.launch, hosts, start, store.get(), guard_, channel_);
    store.close();  // only rank 0 has it now
    SupervisorOptions options{.grace = job_.launch.grace,
                              .program_is_ours = job_.launch.program_is_ours};
    if (is_elastic()) options.pause_wanted = [this] { return wants_pause(); };
    Supervisor supervisor(std::move(ranks), channel_, signals_, options);
    *exit_code = supervisor.run();
    if (!is_elastic()) return std::nullopt;
    if (!supervisor.asked_to_end() && has_failed_because_of_new_host(supervisor)) {
      return without_failed_host(members, supervisor.host_of_cause(), exit_code);
    }
    if (supervisor.configuration_failed()) return fewer_than(members, exit_code);
    if (!supervisor.paused() && !supervisor.may_restart()) return std::nullopt;
    worked_ = hosts.names;
    return supervisor.paused() ? with_present(channel_.present(), exit_code)
                               : after_failure(supervisor.host_of_cause(),
                                               supervisor.has_progressed() ||
                                                   Clock::now() - started >= kProgressTime,
                                               exit_code);
  }

  // Whether ranks have failed on a host that was not among those on which the job has worked, and
  // not everywhere. Such a host, which may lack the program or a file, must not end the job.
  bool has_failed_because_of_new_host(const Supervisor& supervisor) const {
    const std::string host = supervisor.host_of_cause();
    return !worked_.empty() && !host.empty() && !supervisor.may_restart() &&
           !supervisor.all_failed_alike() && std::ranges::find(worked_, host) == worked_.end();
  }

  // Returns the hosts that are present, among `members`, except `host`.
  std::optional<std::vector<int>> without_failed_host(const std::vector<int>& members,
                                                      const std::string& host, int* exit_code) {
    std::optional<std::vector<int>> present = wait_for_ends(exit_code);
    if (!present) return std::nullopt;
    std::erase_if(*present, [&](int index) {
      return job_.hosts.names[index] == host || std::ranges::find(members, index) == members.end();
    });
    log::info("host {} is left out, because its ranks have failed where others work", host);
    return with_present(std::move(*present), exit_code);
  }

  // Returns one of the members that are present less, if the configuration has worked with another
  // number of hosts.
  std::optional<std::vector<int>> fewer_than(const std::vector<int>& members, int* exit_code) {
    if (worked_.empty() || std::ssize(members) <= *job_.min_hosts) return std::nullopt;
    const std::optional<std::vector<int>> present = wait_for_ends(exit_code);
    if (!present) return std::nullopt;
    std::vector<int> fewer;
    std::ranges::set_intersection(members, *present, std::back_inserter(fewer));
    if (fewer.size() == members.size()) fewer.pop_back();
    log::info("the configuration does not work with {} hosts; trying {}", members.size(),
              fewer.size());
    return with_present(std::move(fewer), exit_code);
  }

  // Waits until the ranks of all hosts have ended. Returns the hosts that are present; nullopt if
  // meanwhile a stop was requested, with *exit_code.
  std::optional<std::vector<int>> wait_for_ends(int* exit_code) {
    if (wait_while([this] { return !channel_.may_leave(); }, Clock::now() + kEndTime)) {
      return channel_.present();
    }
    *exit_code = kStoppedExitCode;
    return std::nullopt;
  }

  // Whether hosts have joined or want to leave, and no more have for a while.
  bool wants_pause() {
    if (channel_.has_leaving_host()) return true;
    if (!channel_.membership_changes()) {
      changed_.reset();
      return false;
    }
    if (!changed_) changed_ = Clock::now();
    return Clock::now() - *changed_ >= kSettle;
  }

  // Returns the hosts on which the job starts again after a failure on failed_host; nullopt if it
  // does not, with *exit_code.
  std::optional<std::vector<int>> after_failure(const std::string& failed_host, bool progressed,
                                                int* exit_code) {
    const RestartPolicy::Decision decision = policy_.after_failure(progressed);
    if (decision == RestartPolicy::Decision::give_up) {
      log::error("the job has failed {} times without progress, the limit of --max-restarts",
                 policy_.restarts() + 1);
      return std::nullopt;
    }
    if (!wait_for_ends(exit_code)) return std::nullopt;
    if (!wait_while([] { return true; }, Clock::now() + policy_.pause())) {
      *exit_code = kStoppedExitCode;
      return std::nullopt;
    }
    std::vector<int> present = channel_.present();
    if (decision == RestartPolicy::Decision::smaller) leave_out(failed_host, present);
    log::info("restart {} of at most {} without progress", policy_.restarts(),
              policy_.max_restarts());
    return with_present(std::move(present), exit_code);
  }

  // Removes a host whose ranks have failed repeatedly, if the others suffice.
  void leave_out(const std::string& host, std::vector<int>& present) const {
    if (std::ssize(present) <= *job_.min_hosts) return;
    std::erase_if(present, [&](int index) {
      const bool leaves = index != 0 && job_.hosts.names[index] == host;
      if (leaves) log::info("host {} is left out, because its ranks failed repeatedly", host);
      return leaves;
    });
  }

  // Returns `present`, if need be after waiting until it has the minimum of hosts. Returns nullopt
  // if too few hosts are there in time, or a stop was requested.
  std::optional<std::vector<int>> with_present(std::vector<int> present, int* exit_code) {
    if (std::ssize(present) < *job_.min_hosts) {
      log::info("waiting until {} hosts are there; now {}: {}", *job_.min_hosts, present.size(),
                names_of(job_.hosts, present));
      const bool waited =
          wait_while([&] { return std::ssize(channel_.present()) < *job_.min_hosts; },
                     Clock::now() + job_.join_timeout);
      present = channel_.present();
      if (!waited || std::ssize(present) < *job_.min_hosts) {
        log::info("stopped; start the same command on at least {} hosts to continue the job",
                  *job_.min_hosts);
        *exit_code = kStoppedExitCode;
        return std::nullopt;
      }
    }
    log::info("the job continues on {} of {} hosts: {}", present.size(), job_.hosts.size(),
              names_of(job_.hosts, present));
    return present;
  }

  // Handles messages and signals while condition() is true, until the deadline. Returns false if a
  // stop of the job was requested.
  template <class Condition>
  bool wait_while(Condition condition, Clock::time_point deadline) {
    while (condition() && Clock::now() < deadline) {
      std::vector<pollfd> polled{{signals_.fd(), POLLIN, 0}};
      channel_.add_to(polled);
      constexpr int kMilliseconds = 50;
      poll(polled.data(), polled.size(), kMilliseconds);
      if (any_stop_signal(signals_.take())) return false;
      for (const HostMessage& message : channel_.receive()) {
        if (message.kind == HostMessage::Kind::stop || message.kind == HostMessage::Kind::kill) {
          return false;
        }
      }
    }
    return true;
  }

  // How long the ranks of other hosts may take to end.
  static constexpr std::chrono::seconds kEndTime{30};

  const HostJob& job_;
  SignalQueue signals_;
  OrphanGuard guard_;
  ControlChannel channel_;
  RestartPolicy policy_;
  // Names of the hosts on which the ranks last ran without an error of the configuration.
  std::vector<std::string> worked_;
  std::optional<Clock::time_point> changed_;  // since when hosts wait to join or to leave
};

// The launcher of any other host.
class OtherHost {
 public:
  explicit OtherHost(const HostJob& job) : job_(job), signals_(kSupervisedSignals) {}

  int run() {
    while (true) {
      Order order;
      auto channel = ControlChannel::join(job_.hosts, job_.port, is_elastic(), &order,
                                          Clock::now() + job_.join_timeout, signals_);
      if (!channel) return stop_before_start();
      if (const auto exit_code = follow(*channel, std::move(order))) return *exit_code;
      log::info("trying to join the job again for {} s", job_.join_timeout.count());
    }
  }

 private:
  bool is_elastic() const { return job_.min_hosts.has_value(); }

  // Follows the orders of the first host. Returns the exit code; nullopt if the first host of an
  // elastic job is lost.
  std::optional<int> follow(ControlChannel& channel, std::optional<Order> order) {
    while (order && order->start) {
      const HostTable hosts = job_.hosts.of_members(order->start->members);
      std::vector<RankProcess> ranks =
          start_or_tell_others(job_.launch, hosts, *order->start, -1, guard_, channel);
      Supervisor supervisor(std::move(ranks), channel, signals_,
                            {.grace = job_.launch.grace,
                             .program_is_ours = job_.launch.program_is_ours,
                             .leaves_alone = is_elastic()});
      const int exit_code = supervisor.run();
      if (!is_elastic()) return exit_code;
      order = channel.next_order(signals_);
      if (!order && supervisor.asked_to_end()) return kStoppedExitCode;
    }
    return order ? std::optional(order->exit_code) : std::nullopt;
  }

  const HostJob& job_;
  SignalQueue signals_;
  OrphanGuard guard_;
};

}  // namespace

int run_host_job(const HostJob& job) {
  return job.hosts.own_index == 0 ? FirstHost(job).run() : OtherHost(job).run();
}

}  // namespace colossal::cluster
