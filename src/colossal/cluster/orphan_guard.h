// Ends what ranks started when their launcher is killed with SIGKILL. The kernel then kills the
// ranks themselves (RankProcess), but a rank may be a shell script whose program would go on.
#pragma once

#include <sys/types.h>

#include "colossal/base/file_descriptor.h"

namespace colossal::cluster {

// A process that waits for the launcher's end and then kills the process groups it was told of.
// Made before the sockets and pipes that it should not inherit; ends with this object.
class OrphanGuard {
 public:
  OrphanGuard();  // throws IoError
  ~OrphanGuard();
  OrphanGuard(const OrphanGuard&) = delete;
  OrphanGuard& operator=(const OrphanGuard&) = delete;

  void add(pid_t group);     // no more than a system call, so a forked child may tell of itself
  void remove(pid_t group);  // before its number can come to mean another

 private:
  FileDescriptor to_guard_;
  pid_t pid_ = -1;
};

}  // namespace colossal::cluster
