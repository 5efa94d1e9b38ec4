// `colossal run`: starts a program as ranks on this machine or on several.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "colossal/cluster/supervisor.h"

namespace colossal::cluster {

struct RunOptions {
  int num_ranks = 1;  // on each host
  // Host names or addresses, the first with rank 0. Empty: this machine only, over loopback. The
  // same command is started on each, by pdsh, ssh or a scheduler.
  std::vector<std::string> hosts = {};
  std::optional<int> host_index =
      {};            // which of `hosts` this is; else found by addresses and host name
  int port = 29500;  // on hosts[0], where the launchers meet
  std::vector<std::string> command = {};   // the program and its arguments
  std::chrono::seconds join_timeout{300};  // for the launchers of all hosts to come
  Grace grace = {};
};

// Returns the job's exit code (Supervisor::run), kStoppedExitCode when stopped before it began.
// With hosts, the store is on hosts[0] at that address only, all data sockets bind to their host's
// own address, and a rank that dies anywhere is named on every host. Throws ConfigError for options
// that cannot be, or when this host is not found in the list; CommError when a host does not come
// in time. Must be called before this process has other threads.
int run(const RunOptions& options);

// Which of `hosts` this machine is. `addresses` are those of `hosts`, one each.
int find_own_index(const std::vector<std::string>& hosts,
                   const std::vector<std::string>& addresses);

}  // namespace colossal::cluster
