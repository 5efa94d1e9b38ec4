#include "colossal/cluster/run.h"

#include <algorithm>

#include "colossal/base/error.h"
#include "colossal/cluster/elastic_launcher.h"
#include "colossal/cluster/host_job.h"
#include "colossal/cluster/local_launcher.h"
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
  if (options.min_ranks && num_hosts > 0) {
    throw ConfigError("--min-ranks is for a job on one host; use --min-hosts with --hosts");
  }
  if (options.min_hosts && num_hosts == 0) {
    throw ConfigError("--min-hosts needs --hosts; use --min-ranks for a job on this machine");
  }
  if (options.min_hosts && (*options.min_hosts < 1 || *options.min_hosts > num_hosts)) {
    throw ConfigError(fmt::format("--min-hosts is {}; expected 1 to {}, the number of --hosts",
                                  *options.min_hosts, num_hosts));
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
                       .elastic = options.min_ranks || options.min_hosts,
                       .grace = options.grace};
  if (!options.hosts.empty()) {
    return run_host_job({.launch = std::move(launch),
                         .hosts = make_host_table(options),
                         .port = options.port,
                         .join_timeout = options.join_timeout,
                         .min_hosts = options.min_hosts,
                         .max_restarts = options.max_restarts});
  }
  if (!options.min_ranks) return run_local_ranks(launch);
  return run_elastic_ranks(launch,
                           {.min_ranks = *options.min_ranks, .max_restarts = options.max_restarts});
}

}  // namespace colossal::cluster
