#include "colossal/cluster/rank_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "colossal/base/error.h"
#include "colossal/base/pipe.h"
#include "colossal/cluster/launch_variables.h"
#include "colossal/cluster/stop_request.h"

namespace colossal::cluster {
namespace {

bool sets(const std::string& entry, const std::string& name) {
  return entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name);
}

// Returns this process's environment with `variables` in place of those with their names.
std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& variables) {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const bool replaced =
        std::any_of(variables.begin(), variables.end(),
                    [&](const auto& variable) { return sets(*entry, variable.first); });
    if (!replaced) entries.emplace_back(*entry);
  }
  for (const auto& [name, value] : variables) entries.push_back(name + "=" + value);
  return entries;
}

std::vector<char*> null_terminated(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& s : strings) pointers.push_back(s.data());
  pointers.push_back(nullptr);
  return pointers;
}

void keep_over_exec(int fd) {
  fcntl(fd, F_SETFD, 0);
}

// Runs in the child after fork(). It may only make system calls, because another thread of the
// launcher may have held any lock at the fork.
struct ChildStart {
  char* const* arguments;
  char* const* environment;
  pid_t launcher;
  OrphanGuard* guard;
  int error_fd;
  int progress_fd;
  int store_fd;
  int failure_fd;  // receives errno if the program cannot be started; else exec closes it

  [[noreturn]] void operator()() const {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher) _exit(1);  // the launcher died before prctl(): no signal would come
    // The child adds itself: the launcher may be killed before it could, when the program has
    // already started other processes.
    guard->add(getpid());
    // Otherwise, a process group in the background stops when it writes to some terminals.
    std::signal(SIGTTOU, SIG_IGN);
    // The launcher ignores SIGPIPE, but many programs rely on it to end.
    std::signal(SIGPIPE, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    if (const int null = open("/dev/null", O_RDONLY); null > STDIN_FILENO) {
      dup2(null, STDIN_FILENO);
      close(null);
    }
    keep_over_exec(error_fd);
    keep_over_exec(progress_fd);
    if (store_fd >= 0) keep_over_exec(store_fd);
    execvpe(arguments[0], arguments, environment);
    const int error = errno;
    [[maybe_unused]] const ssize_t written = write(failure_fd, &error, sizeof error);
    _exit(127);
  }
};

}  // namespace

RankProcess::RankProcess(const RankCommand& command, OrphanGuard& guard)
    : guard_(&guard), host_(command.host) {
  Pipe start, error, progress;
  std::vector<std::string> arguments{command.program};
  arguments.insert(arguments.end(), command.arguments.begin(), command.arguments.end());
  auto variables = command.variables;
  variables.emplace_back(kErrorVariable, std::to_string(error.write_end.get()));
  variables.emplace_back(kProgressVariable, std::to_string(progress.write_end.get()));
  std::vector<std::string> environment = environment_with(variables);
  const std::vector<char*> argv = null_terminated(arguments);
  const std::vector<char*> envp = null_terminated(environment);
  const ChildStart child{.arguments = argv.data(),
                         .environment = envp.data(),
                         .launcher = getpid(),
                         .guard = guard_,
                         .error_fd = error.write_end.get(),
                         .progress_fd = progress.write_end.get(),
                         .store_fd = command.store_socket,
                         .failure_fd = start.write_end.get()};

  pid_ = fork();
  if (pid_ == 0) child();
  if (pid_ < 0) {
    throw IoError(fmt::format("cannot start rank {}: {}", command.rank, strerror(errno)));
  }
  setpgid(pid_, pid_);  // in both processes, because either may come first
  start.write_end.close();
  int reason = 0;
  if (read(start.read_end.get(), &reason, sizeof reason) == sizeof reason) {
    guard_->remove(pid_);
    waitpid(pid_, nullptr, 0);
    throw ConfigError(
        fmt::format("cannot start program '{}': {}", command.program, strerror(reason)));
  }
  who_ = fmt::format("rank {} (pid {}, host {})", command.rank, pid_, command.host);
  error_pipe_ = std::move(error.read_end);
  fcntl(error_pipe_.get(), F_SETFL, O_NONBLOCK);
  progress_pipe_ = std::move(progress.read_end);
  fcntl(progress_pipe_.get(), F_SETFL, O_NONBLOCK);
}

RankProcess::RankProcess(RankProcess&& other) noexcept
    : guard_(other.guard_),
      host_(std::move(other.host_)),
      who_(std::move(other.who_)),
      pid_(std::exchange(other.pid_, -1)),
      ended_(other.ended_),
      status_(other.status_),
      sent_(std::move(other.sent_)),
      error_pipe_(std::move(other.error_pipe_)),
      progress_pipe_(std::move(other.progress_pipe_)),
      has_progressed_(other.has_progressed_),
      text_(std::move(other.text_)) {}

RankProcess::~RankProcess() {
  if (pid_ < 0 || ended_) return;
  kill(-pid_, SIGKILL);
  guard_->remove(pid_);
  waitpid(pid_, nullptr, 0);
}

bool RankProcess::check_ended() {
  if (ended_) return true;
  siginfo_t info{};
  // WNOWAIT: until the process is reaped, no other process group gets its number.
  if (waitid(P_PID, pid_, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != pid_) {
    return false;
  }
  kill(-pid_, SIGKILL);
  guard_->remove(pid_);
  waitpid(pid_, &status_, 0);
  ended_ = true;
  text_ = take_text();
  return true;
}

std::string RankProcess::take_text() {
  std::string text(kMaxErrorBytes, '\0');
  const ssize_t size = read(error_pipe_.get(), text.data(), text.size());
  text.resize(size > 0 ? size : 0);
  return text;
}

bool RankProcess::has_progressed() {
  char byte = 0;
  has_progressed_ = has_progressed_ || read(progress_pipe_.get(), &byte, 1) == 1;
  return has_progressed_;
}

bool RankProcess::ended_by_us() const {
  return ended_ && WIFSIGNALED(status_) &&
         std::find(sent_.begin(), sent_.end(), WTERMSIG(status_)) != sent_.end();
}

bool RankProcess::killed_by_us() const {
  // SIGQUIT ends a rank that does not write its stacks.
  return ended_by_us() && (WTERMSIG(status_) == SIGKILL || WTERMSIG(status_) == SIGQUIT);
}

bool RankProcess::stopped() const {
  return ended_ && WIFEXITED(status_) && WEXITSTATUS(status_) == kStoppedExitCode;
}

std::optional<Failure> RankProcess::failure() const {
  if (!ended_ || status_ == 0 || stopped() || ended_by_us()) return std::nullopt;
  Failure failure{.who = who_, .text = text_, .host = host_};
  if (WIFSIGNALED(status_)) {
    const int signal = WTERMSIG(status_);
    failure.event = fmt::format("was killed by signal {} ({})", signal, signal_name(signal));
    failure.sudden = true;
  } else {
    failure.exit_code = WEXITSTATUS(status_);
    failure.event = fmt::format("exited with code {}", failure.exit_code);
  }
  return failure;
}

void RankProcess::send_signal(int signal) {
  if (ended_) return;
  sent_.push_back(signal);
  kill(-pid_, signal);
}

}  // namespace colossal::cluster
