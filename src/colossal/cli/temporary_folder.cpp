#include "colossal/cli/temporary_folder.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>

#include "colossal/base/error.h"

namespace colossal::cli {
namespace {

void remove_after_the_end(const char* path) {
  char none = 0;
  while (read(STDIN_FILENO, &none, 1) == -1 && errno == EINTR) {
  }
  execl("/bin/rm", "rm", "-rf", "--", path, nullptr);
  _exit(1);
}

}  // namespace

// The guard starts before the folder is created, so that the folder never exists without it.
TemporaryFolder::TemporaryFolder() {
  std::random_device random;
  path_ = std::filesystem::temp_directory_path() /
          fmt::format("colossal-{:08x}{:08x}", random(), random());
  guard_ = cluster::start_guard_process(
      fmt::format("{}: cannot start the process that removes this temporary folder",
                  path_.string()),
      [this] { remove_after_the_end(path_.c_str()); });
  if (mkdir(path_.c_str(), S_IRWXU) == 0) return;
  const int error = errno;
  kill(guard_.pid, SIGKILL);  // something else is at this path: the guard must not remove it
  waitpid(guard_.pid, nullptr, 0);
  throw IoError(fmt::format("{}: {}", path_.string(), std::strerror(error)));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  guard_.to_guard.close();
  waitpid(guard_.pid, nullptr, 0);
}

}  // namespace colossal::cli
