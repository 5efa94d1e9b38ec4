// Runs one rank of a job as a child process of the launcher. Supervisor (supervisor.h) watches it.
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
  // Names and values of environment variables. The rank gets them and, except for these names, the
  // variables of the launcher.
  std::vector<std::pair<std::string, std::string>> variables = {};
  int rank = 0;           // for messages
  std::string host = {};  // name of this host, for messages
  int store_socket = -1;  // descriptor that the rank inherits, with the same number; -1: none
};

// The rank leads a process group of its own. A signal to the group thus also reaches the processes
// that the rank has started, and Ctrl-C in a terminal reaches only the launcher. The rank's stdin
// is /dev/null; its stdout and stderr are the launcher's. If the launcher dies, in whatever way,
// the kernel kills the rank, and the OrphanGuard kills the processes that the rank has started.
class RankProcess {
 public:
  // Starts the rank. Throws ConfigError if the program cannot be started, and IoError if no process
  // can be created. The calling thread must live as long as the rank: when the thread ends, the
  // kernel kills the rank. `guard` must outlive this object.
  RankProcess(const RankCommand& command, OrphanGuard& guard);
  RankProcess(RankProcess&& other) noexcept;
  ~RankProcess();  // kills the rank's process group if the rank still runs

  // Checks, without waiting, whether the rank has ended, and returns the answer. If it has ended,
  // kills the processes that it left behind.
  bool check_ended();
  // Returns the last answer of check_ended(). As long as it is false, the functions below up to
  // killed_by_us() return nullopt or false.
  bool ended() const { return ended_; }

  // Returns how the rank failed; nullopt if the rank still runs, exited with 0 or kStoppedExitCode,
  // or was ended by a signal from send_signal().
  std::optional<Failure> failure() const;
  bool stopped() const;       // whether the rank exited with kStoppedExitCode
  bool ended_by_us() const;   // whether a signal from send_signal() ended the rank
  bool killed_by_us() const;  // whether SIGQUIT or SIGKILL from send_signal() ended the rank
  // Returns whether the rank has called send_progress().
  bool has_progressed();
  const std::string& who() const { return who_; }  // "rank 1 (pid 123, host node7)"

  // Sends a signal to the rank's process group. Does nothing if the rank has ended.
  void send_signal(int signal);

 private:
  // Reads the message that the rank has written with send_error().
  std::string take_text();

  OrphanGuard* guard_;
  std::string host_;
  std::string who_;
  pid_t pid_ = -1;
  bool ended_ = false;
  int status_ = 0;                // from waitpid(), if ended_
  std::vector<int> sent_;         // signals from send_signal()
  FileDescriptor error_pipe_;     // read end of the pipe for send_error()
  FileDescriptor progress_pipe_;  // read end of the pipe for send_progress()
  bool has_progressed_ = false;
  std::string text_;  // message of the ended rank
};

}  // namespace colossal::cluster
