// Cleans up if the launcher dies before it can, for example by SIGKILL: kills the processes that
// ranks have started, and removes the ranks' folder in memory. The kernel then kills the ranks
// themselves (rank_process.h). But a rank may be a shell script, and the kernel does not kill the
// script's program.
#pragma once

#include <sys/types.h>

#include <filesystem>

#include "colossal/cluster/guard_process.h"

namespace colossal::cluster {

// Runs a guard process. The guard waits until this process (the launcher) ends and then kills the
// process groups that are registered, and removes the folder. The destructor ends the guard, which
// then does nothing.
class OrphanGuard {
 public:
  // folder: removed with its contents; empty: none. Throws IoError if the guard cannot be started.
  explicit OrphanGuard(const std::filesystem::path& folder = {});
  ~OrphanGuard();
  OrphanGuard(const OrphanGuard&) = delete;
  OrphanGuard& operator=(const OrphanGuard&) = delete;

  // Registers a process group. Makes a single system call, so a forked child may call it.
  void add(pid_t group);
  // Removes a process group. Call it before waitpid() for the group's leader, because afterwards
  // the kernel may give the group's number to other processes.
  void remove(pid_t group);
  // Returns the id of the guard process.
  pid_t pid() const { return guard_.pid; }

 private:
  GuardProcess guard_;
};

}  // namespace colossal::cluster
