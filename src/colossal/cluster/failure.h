// Collects the failures of a job and determines their cause.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace colossal::cluster {

// A rank that ended without success, or a host that was lost with its ranks.
struct Failure {
  std::string who = {};    // "rank 1 (pid 123, host node7)"
  std::string event = {};  // "was killed by signal 9 (SIGKILL)", "exited with code 1"
  std::string text = {};   // the rank's message from send_error(), or ""
  // That of the rank; 3 if a signal ended it or its host was lost; 2 if its program did not start.
  // If this failure is the cause, the launcher exits with this code.
  int exit_code = 3;
  // Whether a signal ended the rank, its host was lost, or its program did not start: events that
  // no other failure causes.
  bool sudden = false;

  std::string describe() const;  // "rank 1 (...) exited with code 1: no such file"
};

// Returns the name of a signal, such as "SIGKILL"; "" if no signal has this number.
std::string signal_name(int signal);

// Collects the failures of a job, on this host and on others, and determines the cause: the first
// sudden failure; else the first whose exit code is not 3 (a rank of ours exits with 3 because
// another rank died or did not connect); else the first.
class JobOutcome {
 public:
  explicit JobOutcome(int num_local_ranks) : num_local_ranks_(num_local_ranks) {}

  void add_local(Failure failure);
  void add_remote(Failure failure);

  // Call when a rank has exited with kStoppedExitCode. Exits of other ranks with code 3 then do not
  // count as failures: they only report that this rank is gone.
  void note_stopped() { stopped_ = true; }
  bool stopped() const { return stopped_; }

  bool failed() const;
  const Failure& cause() const;  // only if failed()

  // Whether all ranks of this host failed with one exit code other than 3, none of them suddenly,
  // and the failures reported by other hosts are like that too. The cause is then common to all
  // ranks, such as a wrong configuration.
  bool all_failed_alike() const;

  // Returns the message to show: cause().describe(), or, if all_failed_alike(), the first message
  // of a rank without naming the rank.
  std::string message() const;

  // Whether every failure has exit code 3 and is not sudden.
  bool all_blame_another_rank() const;

  // Returns describe() of each failure with a message; at most the first 16.
  std::vector<std::string> messages_of_ranks() const;

 private:
  int num_local_ranks_;
  int local_failures_ = 0;
  bool stopped_ = false;
  std::vector<Failure> failures_;
};

}  // namespace colossal::cluster
