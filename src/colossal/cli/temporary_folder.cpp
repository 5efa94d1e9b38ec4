#include "colossal/cli/temporary_folder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>

#include "colossal/base/error.h"
#include "colossal/base/pipe.h"

namespace colossal::cli {
namespace {

// Only system calls: other threads of the process that we are a copy of may have held locks.
[[noreturn]] void remove_after_the_end(int from_owner, const char* path) {
  setpgid(0, 0);  // away from signals to our group, such as the terminal's
  dup2(from_owner, STDIN_FILENO);
  close_range(STDOUT_FILENO, ~0U, 0);  // it holds nothing that others wait for to be closed
  char none = 0;
  while (read(STDIN_FILENO, &none, 1) == -1 && errno == EINTR) {
  }
  execl("/bin/rm", "rm", "-rf", "--", path, nullptr);
  _exit(1);
}

}  // namespace

// The guard is there, and in a group of its own, before the folder is: so no moment is left in
// which nobody would remove it.
TemporaryFolder::TemporaryFolder() {
  std::random_device random;
  path_ = std::filesystem::temp_directory_path() /
          fmt::format("colossal-{:08x}{:08x}", random(), random());
  Pipe pipe;
  guard_ = fork();
  if (guard_ == 0) {
    pipe.write_end.close();
    remove_after_the_end(pipe.read_end.get(), path_.c_str());
  }
  if (guard_ < 0) {
    throw IoError(fmt::format("{}: cannot start the process that would remove it: {}",
                              path_.string(), std::strerror(errno)));
  }
  setpgid(guard_, guard_);  // also here: whoever of us comes first
  to_guard_ = std::move(pipe.write_end);
  if (mkdir(path_.c_str(), S_IRWXU) == 0) return;
  const int error = errno;
  kill(guard_, SIGKILL);  // what stands there is not ours
  waitpid(guard_, nullptr, 0);
  throw IoError(fmt::format("{}: {}", path_.string(), std::strerror(error)));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  to_guard_.close();
  waitpid(guard_, nullptr, 0);
}

}  // namespace colossal::cli
