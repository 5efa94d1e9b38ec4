// Programs that a test starts, watches and does not leave behind.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace colossal::cluster {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// When nothing of a failed run may be left; the test program's grace is shorter than a user's.
inline constexpr auto kAllGone = 5s;

// A word that no other process on this machine has in its command line.
std::string unique_word();

// The processes, not yet dead, whose command line has `word` in it.
std::vector<pid_t> processes_with(const std::string& word);

// Whether condition() comes true in time.
template <class Condition>
bool comes_true(Condition condition, std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  while (!condition()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

// Fails the test when one is still there after a second.
void expect_no_process_with(const std::string& word);

class TestProcess {
 public:
  struct Options {
    bool in_terminal = false;  // one of its own, with the process in its foreground
    std::vector<std::pair<std::string, std::string>> variables = {};
  };

  // Runs arguments[0] with stdout and stderr caught together; in a session of its own.
  explicit TestProcess(std::vector<std::string> arguments);
  TestProcess(std::vector<std::string> arguments, Options options);
  TestProcess(const TestProcess&) = delete;
  TestProcess& operator=(const TestProcess&) = delete;
  ~TestProcess();  // with its whole process group

  pid_t pid() const { return pid_; }

  // All that it has written so far.
  const std::string& output();
  bool writes(const std::string& text, int times = 1, std::chrono::milliseconds timeout = 10s);
  void type(const std::string& keys);  // at its terminal

  // Its exit code, or 1000 + the signal that killed it; -1 when it has not ended in time.
  int wait(std::chrono::milliseconds timeout = 10s);

 private:
  pid_t pid_ = -1;
  int output_fd_ = -1;
  std::string output_;
  bool ended_ = false;
  bool all_closed_ = false;  // nobody can write to it any more
};

// The test's own launcher and rank, see rank_program.cpp.
std::string rank_program();

// Runs a command to its end; its output. Fails the test when it does not exit with 0.
std::string run_command(const std::vector<std::string>& arguments);

}  // namespace colossal::cluster
