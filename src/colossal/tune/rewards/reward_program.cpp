#include "colossal/tune/rewards/reward_program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <limits>
#include <sstream>

#include "colossal/base/error.h"
#include "colossal/base/file_descriptor.h"
#include "colossal/base/pipe.h"
#include "colossal/io/json.h"

extern char** environ;

namespace colossal::tune {
namespace {

using Clock = std::chrono::steady_clock;

// A program in a process group of its own. The destructor kills the group.
class Process {
 public:
  Process(const std::string& command, const Pipe& input, const Pipe& output) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input.read_end.get(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output.write_end.get(), STDOUT_FILENO);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    std::string shell = "sh", flag = "-c", text = command;
    std::array<char*, 4> arguments{shell.data(), flag.data(), text.data(), nullptr};
    const int failure =
        posix_spawn(&process_, "/bin/sh", &actions, &attributes, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (failure != 0) throw Error("it cannot be started");
  }
  ~Process() {
    if (process_ > 0) {
      kill(-process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Waits for the end of the program, which has closed its output. Throws Error unless it
  // succeeded.
  void finish(Clock::time_point deadline) {
    int status = 0;
    while (waitpid(process_, &status, WNOHANG) == 0) {
      if (Clock::now() > deadline) throw Error("it did not end in time");
      usleep(1000);
    }
    process_ = -1;
    if (WIFSIGNALED(status))
      throw Error(fmt::format("it was ended by signal {}", WTERMSIG(status)));
    if (WEXITSTATUS(status) != 0) {
      throw Error(fmt::format("it ended with exit code {}", WEXITSTATUS(status)));
    }
  }

 private:
  pid_t process_ = -1;
};

// While this object lives, a write to a program that has ended fails with an error instead of
// SIGPIPE.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoPipeSignal() {
    const timespec no_time{};
    while (sigtimedwait(&pipe_, nullptr, &no_time) == SIGPIPE) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;

 private:
  sigset_t pipe_, before_;
};

void set_non_blocking(const FileDescriptor& end) {
  fcntl(end.get(), F_SETFL, fcntl(end.get(), F_GETFL) | O_NONBLOCK);
}

// Writes all of `input` and reads all output at the same time, so that neither side waits for the
// other. Returns the output.
std::string exchange(const std::string& input, FileDescriptor write, const FileDescriptor& read,
                     Clock::time_point deadline) {
  set_non_blocking(write);
  set_non_blocking(read);
  std::string output;
  size_t written = 0;
  for (;;) {
    if (written == input.size()) write.close();
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) throw Error("it did not answer in time");
    std::array<pollfd, 2> ends{{{read.get(), POLLIN, 0}, {write.get(), POLLOUT, 0}}};
    poll(ends.data(), write ? 2 : 1, static_cast<int>(std::min<int64_t>(left, 1000)));
    if (write && ends[1].revents != 0) {
      const ssize_t count = ::write(write.get(), input.data() + written, input.size() - written);
      if (count > 0) written += count;
      // The program has closed its input, but may still answer.
      if (count < 0 && errno != EAGAIN && errno != EINTR) write.close();
    }
    if (ends[0].revents != 0) {
      std::array<char, 65536> buffer;
      const ssize_t count = ::read(read.get(), buffer.data(), buffer.size());
      if (count == 0) return output;
      if (count > 0) output.append(buffer.data(), count);
    }
  }
}

class RewardProgram final : public Reward {
 public:
  RewardProgram(std::string command, double timeout)
      : command_(std::move(command)), timeout_(timeout) {}

  std::vector<double> score(const std::vector<ScoredText>& texts) override {
    std::string input;
    for (const ScoredText& text : texts) input += describe(text) + "\n";
    const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                             std::chrono::duration<double>(timeout_));
    Pipe to, from;
    Process process(command_, to, from);
    to.read_end.close();
    from.write_end.close();
    const NoPipeSignal no_signal;
    const std::string output = exchange(input, std::move(to.write_end), from.read_end, deadline);
    process.finish(deadline);
    return scores_of(output, texts.size());
  }

 private:
  static std::vector<double> scores_of(const std::string& output, size_t count) {
    std::istringstream lines(output);
    std::vector<double> scores;
    for (std::string line; std::getline(lines, line);) {
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      const auto answer = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (answer.is_discarded()) throw Error(fmt::format("its line is not JSON: {}", line));
      scores.push_back(read_reward(answer));
    }
    if (scores.size() != count) {
      throw Error(fmt::format("it answered {} lines for {} completions", scores.size(), count));
    }
    return scores;
  }

  std::string command_;
  double timeout_;
};

}  // namespace

std::string describe(const ScoredText& text) {
  nlohmann::json line = *text.columns;
  line["completion"] = text.completion;
  line["tokens"] = text.tokens;
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

double read_reward(const nlohmann::json& answer) {
  if (answer.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (answer.is_number()) return answer.get<double>();
  if (answer.is_object() && answer.contains("reward")) return read_reward(answer["reward"]);
  throw Error(fmt::format("{} is not a reward: must be a number, null or {{\"reward\": ...}}",
                          io::show_value(answer)));
}

std::unique_ptr<Reward> make_reward_program(const std::string& command, double timeout) {
  if (command.find_first_not_of(' ') == std::string::npos) {
    throw ConfigError(
        "tune.reward = \"command:\": no program is given; give one, such as \"command:./judge\"");
  }
  return std::make_unique<RewardProgram>(command, timeout);
}

}  // namespace colossal::tune
