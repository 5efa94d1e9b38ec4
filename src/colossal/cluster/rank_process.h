// Runs one rank as a child process.
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
  // Name and value of environment variables: added to our environment, or replacing those in it.
  std::vector<std::pair<std::string, std::string>> variables = {};
  int rank = 0;
  std::string host = {};  // for messages
  int store_socket = -1;  // descriptor that the rank inherits, with the same number; -1: none
};

// The rank leads a process group of its own, so a signal to the group also reaches processes that
// the rank started, and Ctrl-C in a terminal reaches only the launcher. The rank's stdin is
// /dev/null; it writes to our stdout and stderr. However the launcher dies, the kernel then kills
// the rank, and the guard kills the processes that the rank started.
class RankProcess {
 public:
  // Throws ConfigError if the program cannot be started, and IoError if no process can be created.
  // The calling thread must live as long as the rank, because the kernel kills the rank when that
  // thread ends. `guard` must outlive this.
  RankProcess(const RankCommand& command, OrphanGuard& guard);
  RankProcess(RankProcess&& other) noexcept;
  ~RankProcess();  // kills the process group if the rank still runs

  // Returns whether the rank has ended. If it has, kills the processes that it left behind. Does
  // not wait for the rank.
  bool check_ended();
  bool ended() const { return ended_; }

  // Returns how the rank failed. Returns nullopt if the rank still runs, exited with 0, stopped(),
  // or ended_by_us().
  std::optional<Failure> failure() const;
  bool stopped() const;                            // exited with kStoppedExitCode
  bool ended_by_us() const;                        // a signal sent by send_signal() ended it
  bool killed_by_us() const;                       // likewise, and the signal was SIGKILL
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
