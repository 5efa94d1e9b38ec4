#include "colossal/cluster/run.h"

#include <algorithm>
#include <csignal>

#include "colossal/base/error.h"
#include "colossal/cluster/control_channel.h"
#include "colossal/cluster/local_launcher.h"
#include "colossal/cluster/signal_queue.h"
#include "colossal/cluster/socket.h"

namespace colossal::cluster {
namespace {

void check(const RunOptions& options) {
  if (options.command.empty()) {
    throw ConfigError("no program to run; expected: colossal run -n N -- PROGRAM ARGS...");
  }
  if (options.num_ranks < 1) {
    throw ConfigError(fmt::format("-n is {}; it must be 1 or more", options.num_ranks));
  }
  if (options.port < 1 || options.port > 65535) {
    throw ConfigError(fmt::format("--port is {}; expected 1 to 65535", options.port));
  }
  const int num_hosts = static_cast<int>(options.hosts.size());
  if (options.host_index && (*options.host_index < 0 || *options.host_index >= num_hosts)) {
    throw ConfigError(fmt::format("--host-index is {}, but --hosts lists {} hosts, from 0",
                                  *options.host_index, num_hosts));
  }
}

// Returns an address of `host` that all hosts can reach. Each host resolves the name itself: on the
// host of that name, it must not mean loopback, unless there is only one host.
std::string usable_address(const std::string& host, bool alone) {
  const std::vector<std::string> addresses = resolve(host);
  const bool is_literal = addresses.front() == host;
  const auto usable = std::find_if(addresses.begin(), addresses.end(), [&](const std::string& a) {
    return alone || is_literal || !is_loopback(a);
  });
  if (usable != addresses.end()) return *usable;
  throw ConfigError(fmt::format(
      "on this host, '{}' of --hosts means {}, which other hosts cannot reach; list its address on "
      "the network instead",
      host, addresses.front()));
}

HostTable make_host_table(const RunOptions& options) {
  HostTable table{.names = options.hosts, .ranks_per_host = options.num_ranks};
  for (const std::string& host : options.hosts) {
    table.addresses.push_back(usable_address(host, options.hosts.size() == 1));
  }
  for (size_t i = 0; i < table.addresses.size(); ++i) {
    const auto first =
        std::find(table.addresses.begin(), table.addresses.end(), table.addresses[i]) -
        table.addresses.begin();
    if (first == static_cast<ptrdiff_t>(i)) continue;
    throw ConfigError(fmt::format("--hosts lists {} twice, as '{}' and '{}'", table.addresses[i],
                                  table.names[first], table.names[i]));
  }
  table.own_index =
      options.host_index ? *options.host_index : find_own_index(table.names, table.addresses);
  return table;
}

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
                                                     .sudden = true}});
    channel.send_done();
    throw;
  }
}

int run_on_hosts(const RunOptions& options, const LaunchOptions& launch) {
  const HostTable hosts = make_host_table(options);
  const auto deadline = std::chrono::steady_clock::now() + options.join_timeout;
  SignalQueue signals(kSupervisedSignals);
  OrphanGuard guard;
  FileDescriptor store;
  JobStart start;
  std::optional<ControlChannel> channel;
  if (hosts.own_index == 0) {
    store = bind_socket(hosts.own_address(), 0);
    start = {bound_port(store), make_job_name()};
    channel = ControlChannel::gather(hosts, options.port, start, deadline, signals);
  } else {
    channel = ControlChannel::join(hosts, options.port, &start, deadline, signals);
  }
  if (!channel) return stop_before_start();
  std::vector<RankProcess> ranks =
      start_or_tell_others(launch, hosts, start, store.get(), guard, *channel);
  store.close();
  return Supervisor(std::move(ranks), std::move(*channel), signals, options.grace,
                    launch.program_is_ours)
      .run();
}

}  // namespace

int find_own_index(const std::vector<std::string>& hosts,
                   const std::vector<std::string>& addresses) {
  const std::vector<std::string> own = own_addresses();
  std::vector<int> found;
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (std::find(own.begin(), own.end(), addresses[i]) != own.end()) {
      found.push_back(static_cast<int>(i));
    }
  }
  if (found.size() == 1) return found.front();
  throw ConfigError(fmt::format(
      "--hosts={} has {} of this machine's addresses ({}); say which of the hosts it is with "
      "--host-index, counted from 0",
      fmt::join(hosts, ","), found.empty() ? "none" : "several", fmt::join(own, ", ")));
}

int run(const RunOptions& options) {
  check(options);
  LaunchOptions launch{.program = options.command.front(),
                       .arguments = {options.command.begin() + 1, options.command.end()},
                       .num_ranks = options.num_ranks,
                       .program_is_ours = false,
                       .grace = options.grace};
  return options.hosts.empty() ? run_local_ranks(launch) : run_on_hosts(options, launch);
}

}  // namespace colossal::cluster
