// Collects what went wrong in a job, and finds the cause.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace colossal::cluster {

// The end of a rank, or of a host with its ranks, that was not a success.
struct Failure {
  std::string who = {};    // "rank 1 (pid 123, host node7)"
  std::string event = {};  // "was killed by signal 9 (SIGKILL)", "exited with code 1"
  std::string text = {};   // what the rank itself said with send_error(), or ""
  int exit_code = 3;       // the launcher's, if this is the cause: the rank's own, or 3
  bool sudden = false;     // a signal or a lost host: nothing but itself can have caused it

  std::string describe() const;  // "rank 1 (...) exited with code 1: no such file"
};

// "SIGKILL", or "" for a number that names none.
std::string signal_name(int signal);

// Gathers the failures of a job, here and on other hosts, and says what caused them: a sudden one,
// else the first exit code that is not 3 (3 says that another rank died), else the first.
class JobOutcome {
 public:
  explicit JobOutcome(int num_local_ranks) : num_local_ranks_(num_local_ranks) {}

  void add_local(Failure failure);
  void add_remote(Failure failure);

  // A rank ended on request: others that then only say that a rank died have not failed.
  void note_stopped() { stopped_ = true; }
  bool stopped() const { return stopped_; }

  bool failed() const;
  const Failure& cause() const;  // of a job that failed

  // Whether all ranks of this host failed with one exit code that blames no other rank, and no
  // other host saw another failure. Then the mistake is the job's, such as a wrong configuration
  // that every rank finds, and not one rank's.
  bool all_alike() const;

  // Returns the text for people: cause().describe(), or, if all ranks failed alike, their message
  // once.
  std::string message() const;

  // Whether every failure only says that another rank died or did not come.
  bool all_wait_for_another() const;

  // Returns the messages with which ranks ended, each as describe() writes it; of many, the first.
  std::vector<std::string> said_by_ranks() const;

 private:
  int num_local_ranks_;
  int local_failures_ = 0;
  bool stopped_ = false;
  std::vector<Failure> failures_;
};

}  // namespace colossal::cluster
