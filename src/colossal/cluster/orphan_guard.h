// Kills all processes that the ranks started if the launcher dies without doing so, e.g. by
// SIGKILL. The kernel kills the ranks themselves (RankProcess), but a rank may be a shell script
// whose program would go on.
#pragma once

#include <sys/types.h>

#include "colossal/cluster/guard_process.h"

namespace colossal::cluster {

// Starts a guard process that waits until the launcher, which constructs this, ends, and then kills
// the registered process groups. The destructor ends the guard process, without killing the groups.
class OrphanGuard {
 public:
  OrphanGuard();  // throws IoError
  ~OrphanGuard();
  OrphanGuard(const OrphanGuard&) = delete;
  OrphanGuard& operator=(const OrphanGuard&) = delete;

  void add(pid_t group);     // a single system call, so a forked child may register its own group
  void remove(pid_t group);  // call before the group's number can be reused

 private:
  GuardProcess guard_;
};

}  // namespace colossal::cluster
