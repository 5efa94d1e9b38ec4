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
  int exit_code = 3;       // exit code of the launcher if this is the cause: that of the rank, or 3
  bool sudden = false;     // a signal or a lost host, which another failure cannot have caused

  std::string describe() const;  // "rank 1 (...) exited with code 1: no such file"
};

// Returns "SIGKILL", for example; "" if no signal has this number.
std::string signal_name(int signal);

// Collects the failures of a job, of this host and of other hosts, and determines the cause: the
// first sudden failure; else the first whose exit code is not 3 (3 means that another rank died);
// else the first.
class JobOutcome {
 public:
  explicit JobOutcome(int num_local_ranks) : num_local_ranks_(num_local_ranks) {}

  void add_local(Failure failure);
  void add_remote(Failure failure);

  // Call when a rank ended on request. Failures of other ranks that only report a dead rank then do
  // not count.
  void note_stopped() { stopped_ = true; }
  bool stopped() const { return stopped_; }

  bool failed() const;
  const Failure& cause() const;  // only if failed()

  // Whether all ranks of this host failed with the same exit code, which blames no other rank, and
  // no other host reported a different failure. The cause is then the job, such as a wrong
  // configuration, and not one rank.
  bool all_failed_alike() const;

  // Returns the text for people: cause().describe(), or, if all_failed_alike(), the ranks' message
  // without a rank.
  std::string message() const;

  // Whether every failure only reports that another rank died or did not connect.
  bool all_blame_another_rank() const;

  // Returns the last messages of the ranks, as describe() formats them; at most the first 16.
  std::vector<std::string> said_by_ranks() const;

 private:
  int num_local_ranks_;
  int local_failures_ = 0;
  bool stopped_ = false;
  std::vector<Failure> failures_;
};

}  // namespace colossal::cluster
