// Starts a guard process: a child that outlives this process and cleans up after it, even if a
// signal kills this process.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "colossal/base/file_descriptor.h"

namespace colossal::cluster {

struct GuardProcess {
  pid_t pid = -1;
  // The write end of a pipe whose read end is the guard's stdin. When this process ends, or closes
  // the write end, the guard reads the end of the file.
  FileDescriptor to_guard;
};

// Starts a guard process, calls run() in it and ends it when run() returns. run() usually reads
// stdin to its end, then cleans up. If this process has other threads, run() may only make system
// calls, because these threads may hold locks at the fork. stdin is the guard's only open file. The
// guard is in a process group of its own when start_guard_process() returns, so signals from the
// terminal do not reach it. The caller must wait for the guard with waitpid(), after it has closed
// to_guard or killed the guard. Throws IoError with a message that begins with `failure` if no
// process can be started.
GuardProcess start_guard_process(const std::string& failure, const std::function<void()>& run);

}  // namespace colossal::cluster
