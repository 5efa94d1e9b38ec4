// `colossal run`: starts a program as ranks on this machine or on several hosts.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "colossal/cluster/supervisor.h"

namespace colossal::cluster {

struct RunOptions {
  int num_ranks = 1;  // on each host
  // Host names or addresses; rank 0 is on the first. Empty: only this machine, over loopback. Start
  // the same command on each host, with pdsh, ssh or a scheduler.
  std::vector<std::string> hosts = {};
  // Index of this machine in `hosts`. nullopt: find_own_index().
  std::optional<int> host_index = {};
  int port = 29500;                        // on hosts[0], to which the other launchers connect
  std::vector<std::string> command = {};   // the program and its arguments
  std::chrono::seconds join_timeout{300};  // for the launchers of all hosts to connect
  Grace grace = {};
};

// Returns the job's exit code (Supervisor::run), or kStoppedExitCode if stopped before any rank
// started. With several hosts, the store binds only to the address of hosts[0], each rank's data
// sockets bind only to the address of the rank's host, and a rank that dies on any host is reported
// on every host. Throws ConfigError if options are invalid or this machine is not in `hosts`;
// throws CommError if a host does not connect in time. Must be called before this process has other
// threads.
int run(const RunOptions& options);

// Returns the index of the host whose address is one of this machine's. addresses: one for each
// host. Throws ConfigError, naming `hosts`, if there is no such host or more than one.
int find_own_index(const std::vector<std::string>& hosts,
                   const std::vector<std::string>& addresses);

}  // namespace colossal::cluster
