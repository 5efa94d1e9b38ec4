#include "colossal/cluster/guard_process.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/base/pipe.h"

namespace colossal::cluster {

GuardProcess start_guard_process(const std::string& failure, const std::function<void()>& run) {
  Pipe pipe;
  const pid_t pid = fork();
  if (pid == 0) {
    setpgid(0, 0);
    dup2(pipe.read_end.get(), STDIN_FILENO);
    close_range(STDOUT_FILENO, ~0U, 0);
    run();
    _exit(0);
  }
  if (pid < 0) throw IoError(fmt::format("{}: {}", failure, std::strerror(errno)));
  setpgid(pid, pid);  // in both processes, because either may come first
  return {.pid = pid, .to_guard = std::move(pipe.write_end)};
}

}  // namespace colossal::cluster
