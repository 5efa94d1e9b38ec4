// If the launcher is killed with SIGKILL, kills all processes that the ranks started. The kernel
// kills the ranks themselves (RankProcess), but a rank may be a shell script whose program would go
// on.
#pragma once

#include <sys/types.h>

#include "colossal/base/file_descriptor.h"

namespace colossal::cluster {

// A process that waits for the launcher's end and then kills the registered process groups. Create
// it before sockets and pipes that it should not inherit. The destructor ends the process.
class OrphanGuard {
 public:
  OrphanGuard();  // throws IoError
  ~OrphanGuard();
  OrphanGuard(const OrphanGuard&) = delete;
  OrphanGuard& operator=(const OrphanGuard&) = delete;

  void add(pid_t group);     // only a system call, so a forked child may register itself
  void remove(pid_t group);  // call before the group's number can be reused

 private:
  FileDescriptor to_guard_;
  pid_t pid_ = -1;
};

}  // namespace colossal::cluster
