// Collects the failures of a job's ranks and determines which of them is the cause, so that the
// launcher reports the cause instead of the failures that follow from it.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace colossal::cluster {

// A rank that ended without success, or a host that was lost or on which the ranks could not start.
struct Failure {
  std::string who = {};    // "rank 1 (pid 123, host node7)" or "host node7 (ranks 4 to 7)"
  std::string event = {};  // "was killed by signal 9 (SIGKILL)", "exited with code 1", "was lost"
  std::string text = {};   // the rank's message from send_error(), or details; may be empty
  // The code with which the launcher exits if this failure is the cause: the rank's exit code; 3 if
  // a signal ended the rank or the host was lost; 2 if the program did not start.
  int exit_code = 3;
  // True if a signal ended the rank, the host was lost, or the program did not start. Failures of
  // other ranks do not lead to such events.
  bool sudden = false;
  std::string host = {};  // name of the host

  std::string describe() const;  // "rank 1 (...) exited with code 1: no such file"
};

// Returns the name of a signal, such as "SIGKILL"; "" if no signal has this number.
std::string signal_name(int signal);

// The failures of a job so far, on all hosts. The cause is the first sudden failure. If there is
// none, the cause is the first failure whose exit code is not 3, because a rank of one of
// Colossal's programs (local_launcher.h) exits with 3 if another rank died or did not connect. If
// all exit codes are 3, the cause is the first failure.
class JobOutcome {
 public:
  // num_local_ranks: number of ranks on this host.
  explicit JobOutcome(int num_local_ranks) : num_local_ranks_(num_local_ranks) {}

  void add_local(Failure failure);   // of a rank of this host
  void add_remote(Failure failure);  // reported by the launcher of another host

  // Call when a rank has exited with kStoppedExitCode (stop_request.h): it has stopped on request,
  // which is no failure. From then on, failures with exit code 3 that are not sudden do not count
  // for failed(), also those added before: they follow from the rank's end.
  void note_stopped() { stopped_ = true; }
  bool stopped() const { return stopped_; }

  // Whether there is a failure that counts (see note_stopped()).
  bool failed() const;
  // Returns the cause. Throws InternalError unless failed().
  const Failure& cause() const;

  // Whether all ranks of this host failed, and all failures of the job have one exit code other
  // than 3 and are not sudden. All ranks then have the same problem, such as a wrong configuration.
  bool all_failed_alike() const;

  // Returns the message to show to the user: cause().describe(). But if all_failed_alike(), it is
  // the first Failure::text that is not empty, without a rank's name. If all texts are empty, it is
  // cause().describe() for a single failure, else "all 4 ranks exited with code 1" ("all 4 ranks of
  // this host ..." if other hosts have failures, too). Call it only if failed().
  std::string message() const;

  // Whether no failure is sudden and all have exit code 3. True if there are no failures.
  bool all_blame_another_rank() const;

  // Returns describe() of the failures whose `text` is not empty, at most the first 16.
  std::vector<std::string> messages_of_ranks() const;

 private:
  int num_local_ranks_;
  int local_failures_ = 0;
  bool stopped_ = false;
  std::vector<Failure> failures_;
};

}  // namespace colossal::cluster
