#include "colossal/cluster/orphan_guard.h"

#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "colossal/base/error.h"
#include "colossal/base/pipe.h"

namespace colossal::cluster {
namespace {

// Group numbers come to add, and negative ones to remove; the end of the pipe is the launcher's.
[[noreturn]] void guard(int from_launcher) {
  std::set<pid_t> groups;
  pid_t group = 0;
  while (read(from_launcher, &group, sizeof group) == sizeof group) {
    if (group > 0) groups.insert(group);
    if (group < 0) groups.erase(-group);
  }
  for (const pid_t left : groups) kill(-left, SIGKILL);
  _exit(0);
}

}  // namespace

OrphanGuard::OrphanGuard() {
  Pipe pipe;
  pid_ = fork();
  if (pid_ == 0) {
    // Away from the terminal's signals. It holds nothing that others wait for to be closed.
    setpgid(0, 0);
    dup2(pipe.read_end.get(), STDIN_FILENO);
    close_range(STDOUT_FILENO, ~0U, 0);
    guard(STDIN_FILENO);
  }
  if (pid_ < 0) {
    throw IoError(fmt::format("cannot start the process that would end what ranks leave: {}",
                              std::strerror(errno)));
  }
  setpgid(pid_, pid_);  // also here: whoever of us comes first
  to_guard_ = std::move(pipe.write_end);
}

OrphanGuard::~OrphanGuard() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void OrphanGuard::add(pid_t group) {
  [[maybe_unused]] const ssize_t size = write(to_guard_.get(), &group, sizeof group);
}

void OrphanGuard::remove(pid_t group) {
  add(-group);
}

}  // namespace colossal::cluster
