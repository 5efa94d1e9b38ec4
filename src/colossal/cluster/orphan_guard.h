// Kills the processes that ranks have started if the launcher dies before it can kill them, for
// example by SIGKILL. The kernel then kills the ranks themselves (rank_process.h). But a rank may
// be a shell script, and the kernel does not kill the script's program.
#pragma once

#include <sys/types.h>

#include "colossal/cluster/guard_process.h"

namespace colossal::cluster {

// Runs a guard process. The guard waits until this process (the launcher) ends and then kills the
// process groups that are registered. The destructor ends the guard, which then kills nothing.
class OrphanGuard {
 public:
  OrphanGuard();  // throws IoError if the guard cannot be started
  ~OrphanGuard();
  OrphanGuard(const OrphanGuard&) = delete;
  OrphanGuard& operator=(const OrphanGuard&) = delete;

  // Registers a process group. Makes a single system call, so a forked child may call it.
  void add(pid_t group);
  // Removes a process group. Call it before waitpid() for the group's leader, because afterwards
  // the kernel may give the group's number to other processes.
  void remove(pid_t group);

 private:
  GuardProcess guard_;
};

}  // namespace colossal::cluster
