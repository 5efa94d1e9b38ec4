// Runs one host's part of a job on several hosts (`colossal run --hosts`). The launcher of the
// first host decides for all: it starts the ranks of all hosts and, if the job is elastic, starts
// them again without a lost host, or with a host that has joined.
#pragma once

#include <chrono>
#include <optional>

#include "colossal/cluster/control_channel.h"
#include "colossal/cluster/local_launcher.h"

namespace colossal::cluster {

struct HostJob {
  LaunchOptions launch;  // the program; the number of ranks is hosts.ranks_per_host
  HostTable hosts;       // all hosts that may take part; own_index is this host's
  int port = 0;          // of the first host's launcher
  std::chrono::seconds join_timeout{300};  // time for the launchers to connect
  // Number of hosts with which an elastic job may run; nullopt: the job is not elastic.
  std::optional<int> min_hosts = {};
  int max_restarts = 0;  // of an elastic job (RestartPolicy)
};

// Runs this host's part of the job, and returns the exit code (run.h). Throws like run().
int run_host_job(const HostJob& job);

}  // namespace colossal::cluster
