#include "tests/cluster/test_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace colossal::cluster {
namespace {

namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

[[noreturn]] void execute(const std::vector<std::string>& arguments,
                          const TestProcess::Options& options) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  for (const auto& [name, value] : options.variables) setenv(name.c_str(), value.c_str(), 1);
  // If a shell script runs the tests in the background, they ignore SIGINT, and this program would
  // inherit that.
  std::signal(SIGINT, SIG_DFL);
  execvp(argv[0], argv.data());
  _exit(126);
}

}  // namespace

std::string unique_word() {
  static int count = 0;
  return "word-" + std::to_string(getpid()) + "-" + std::to_string(++count);
}

std::vector<pid_t> processes_with(const std::string& word) {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (!std::all_of(name.begin(), name.end(), ::isdigit)) continue;
    if (read_text(entry.path() / "cmdline").find(word) != std::string::npos) {
      found.push_back(std::stoi(name));
    }
  }
  return found;
}

void expect_no_process_with(const std::string& word) {
  EXPECT_TRUE(comes_true([&] { return processes_with(word).empty(); }, 1s))
      << processes_with(word).size() << " are left";
}

TestProcess::TestProcess(std::vector<std::string> arguments) : TestProcess(arguments, Options{}) {}

TestProcess::TestProcess(std::vector<std::string> arguments, Options options) {
  int ends[2] = {-1, -1};
  if (!options.in_terminal && pipe2(ends, O_CLOEXEC) != 0) std::abort();
  pid_ = options.in_terminal ? forkpty(&output_fd_, nullptr, nullptr, nullptr) : fork();
  if (pid_ == 0) {
    if (!options.in_terminal) {
      setsid();
      dup2(ends[1], STDOUT_FILENO);
      dup2(ends[1], STDERR_FILENO);
    }
    execute(arguments, options);
  }
  if (!options.in_terminal) {
    output_fd_ = ends[0];
    close(ends[1]);
  }
  fcntl(output_fd_, F_SETFL, O_NONBLOCK);
  fcntl(output_fd_, F_SETFD, FD_CLOEXEC);
}

TestProcess::~TestProcess() {
  if (!ended_) {
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(output_fd_);
}

const std::string& TestProcess::output() {
  char buffer[4096];
  ssize_t size = 0;
  while ((size = read(output_fd_, buffer, sizeof buffer)) > 0) output_.append(buffer, size);
  all_closed_ = size == 0 || errno != EAGAIN;
  return output_;
}

bool TestProcess::writes(const std::string& text, int times, std::chrono::milliseconds timeout) {
  return comes_true(
      [&] {
        int found = 0;
        const std::string& all = output();
        for (size_t at = all.find(text); at != all.npos; at = all.find(text, at + 1)) ++found;
        return found >= times;
      },
      timeout);
}

void TestProcess::type(const std::string& keys) {
  ASSERT_EQ(write(output_fd_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
}

int TestProcess::wait(std::chrono::milliseconds timeout) {
  int status = 0;
  ended_ = ended_ || comes_true(
                         [&] {
                           output();  // else the process might wait for us to read
                           return waitpid(pid_, &status, WNOHANG) == pid_;
                         },
                         timeout);
  if (!ended_) return -1;
  // A terminal passes output on with some delay.
  comes_true([&] { return output(), all_closed_; }, 500ms);
  return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string rank_program() {
  return COLOSSAL_TEST_BINARY_DIR "/cluster_rank_program";
}

std::string run_command(const std::vector<std::string>& arguments) {
  TestProcess process(arguments);
  const int code = process.wait(60s);
  EXPECT_EQ(code, 0) << arguments[0] << ": " << process.output();
  return process.output();
}

}  // namespace colossal::cluster
