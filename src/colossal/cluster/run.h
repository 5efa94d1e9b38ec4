// The command `colossal run`: starts a program as the ranks of a job, on this machine or on several
// hosts.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "colossal/cluster/restart_policy.h"
#include "colossal/cluster/supervisor.h"

namespace colossal::cluster {

struct RunOptions {
  int num_ranks = 1;  // number of ranks on each host
  // Host names or addresses; rank 0 is on the first host. The user starts the same command on each
  // of them, with pdsh, ssh or a scheduler. Empty: a job on this machine only, over loopback.
  std::vector<std::string> hosts = {};
  // Index of this machine in `hosts`; nullopt: run() finds it by address (find_own_index()).
  std::optional<int> host_index = {};
  int port = 29500;  // port of hosts[0] to which the launchers of the other hosts connect
  std::vector<std::string> command = {};   // the program and its arguments
  std::chrono::seconds join_timeout{300};  // time for the launchers of all hosts to connect
  Grace grace = {};  // time for the other ranks to end after a rank has failed
  // If one of these is set, the job is elastic: it goes on after failures, on as many ranks or
  // hosts as there are, but at least on this many. min_hosts needs `hosts`; min_ranks is for a job
  // on this machine only.
  std::optional<int> min_ranks = {};
  std::optional<int> min_hosts = {};
  int max_restarts = kDefaultRestarts;  // of an elastic job (RestartPolicy)
};

// Starts this host's ranks of the job, supervises them, and returns the job's exit code: 0 if all
// ranks of this host exited with 0 and no other host reported a failure; for the other codes see
// Supervisor::run(). Returns kStoppedExitCode if this process gets a stop signal (stop_request.h)
// before any rank has started.
//
// An elastic job starts its ranks again after a rank has died or a host was lost, on the hosts that
// are there; also when a host joins or leaves. A host joins when the user starts its launcher, and
// leaves when its launcher gets SIGTERM or SIGUSR1; on the first host, these stop the job.
//
// With several hosts, waits until the launchers of all hosts have connected. An elastic job starts
// with fewer, but at least min_hosts, if the others do not connect within join_timeout. If a rank
// fails on one host, the launcher of every host reports it. The store of the rendezvous
// (comm/store.h) listens only at the address of hosts[0]; each rank is told to use the address of
// its host for its connections (kInterfaceVariable).
//
// Throws ConfigError if options are invalid, this machine is not in `hosts`, the launchers were
// given different options, or the program cannot be started. Throws CommError if a host does not
// connect in time, and IoError if no socket or process can be created. Call it before this process
// has other threads.
int run(const RunOptions& options);

// Returns the index of the host whose address is an address of this machine. hosts: the names of
// the hosts, used only in error messages. addresses: numeric address of each host. Throws
// ConfigError if there is no such host or more than one.
int find_own_index(const std::vector<std::string>& hosts,
                   const std::vector<std::string>& addresses);

}  // namespace colossal::cluster
