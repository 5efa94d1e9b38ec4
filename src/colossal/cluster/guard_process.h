// A process that cleans up after this process if a signal kills it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "colossal/base/file_descriptor.h"

namespace colossal::cluster {

struct GuardProcess {
  pid_t pid = -1;
  FileDescriptor to_guard;  // a pipe to the guard's stdin, which ends when this process does
};

// Starts a guard process and calls run() in it. If this process has other threads, run() may only
// make system calls, because these threads may hold locks at the fork. The guard is in a process
// group of its own before this returns, so signals to our group (the terminal's) do not reach it,
// and it holds no other open file. Throws IoError, which begins with `failure`, if no process can
// be started.
GuardProcess start_guard_process(const std::string& failure, const std::function<void()>& run);

}  // namespace colossal::cluster
