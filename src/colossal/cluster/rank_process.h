// One rank as a child process.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "colossal/base/file_descriptor.h"
#include "colossal/cluster/failure.h"
#include "colossal/cluster/orphan_guard.h"

namespace colossal::cluster {

struct RankCommand {
  std::string program = {};  // a path, or a name to look up in PATH
  std::vector<std::string> arguments = {};
  std::vector<std::pair<std::string, std::string>> variables = {};  // on top of our own environment
  int rank = 0;
  std::string host = {};  // for messages
  int store_socket = -1;  // inherited under its number, named by COLOSSAL_STORE_FD
};

// The rank leads a process group of its own, so that a signal reaches what it started, and Ctrl-C
// in a terminal reaches the launcher alone. It reads nothing from the terminal, writes to our
// stdout and stderr, and the kernel kills it when the launcher dies, however that happens (and the
// guard, what it started).
class RankProcess {
 public:
  // Throws ConfigError when the program cannot be started. The thread that calls must live as long
  // as the rank: the kernel takes its end for the launcher's. The guard must live longer.
  RankProcess(const RankCommand& command, OrphanGuard& guard);
  RankProcess(RankProcess&& other) noexcept;
  ~RankProcess();  // kills what is still there

  // Whether it has ended. What it started and left behind is killed then.
  bool check_ended();
  bool ended() const { return ended_; }

  // How it failed; none while it runs, when it exited with 0 or stopped(), or when it was ended by
  // a signal that we sent.
  std::optional<Failure> failure() const;
  bool stopped() const;  // on request: it exited with kStoppedExitCode
  bool ended_by_us() const;
  bool killed_by_us() const;                       // with SIGKILL: it did not end before
  const std::string& who() const { return who_; }  // "rank 1 (pid 123, host node7)"

  // Sends a signal to the rank's whole process group. Does nothing if the rank has ended.
  void send_signal(int signal);

 private:
  std::string take_text();

  OrphanGuard* guard_;
  std::string who_;
  pid_t pid_ = -1;
  bool ended_ = false;
  int status_ = 0;
  std::vector<int> sent_;
  FileDescriptor error_pipe_;
  std::string text_;
};

}  // namespace colossal::cluster
