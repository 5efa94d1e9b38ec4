#include "colossal/cli/thread_spinning.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace colossal::cli {
namespace {

// Turns, of some 40 ns: long enough for the gap between two kernels, short beside a time slice.
constexpr const char* kSpins = "1000";

bool is_set_already() {
  return std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT");
}

// The arguments of this process, each ended by a zero byte.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::vector<std::string> arguments_of_process() {
  const std::string text = command_line();
  std::vector<std::string> arguments;
  for (size_t begin = 0; begin < text.size(); begin = text.find('\0', begin) + 1) {
    arguments.emplace_back(text.c_str() + begin);
  }
  if (!arguments.empty()) arguments.erase(arguments.begin());
  return arguments;
}

void limit_spinning_of_children() {
  if (!is_set_already()) setenv("GOMP_SPINCOUNT", kSpins, 1);
}

void limit_spinning(const std::vector<int>& inherited) {
  if (is_set_already()) return;
  limit_spinning_of_children();
  std::string text = command_line();
  std::vector<char*> arguments;
  for (size_t begin = 0; begin < text.size(); begin = text.find('\0', begin) + 1) {
    arguments.push_back(text.data() + begin);
  }
  arguments.push_back(nullptr);
  for (const int fd : inherited) {
    if (fd >= 0) fcntl(fd, F_SETFD, 0);
  }
  std::error_code unreadable;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", unreadable);
  execv(path.c_str(), arguments.data());  // by its path, so that the process keeps its name
  execv("/proc/self/exe", arguments.data());
  // Neither: it goes on as it is, slower beside others, no worse.
  for (const int fd : inherited) {
    if (fd >= 0) fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
}

}  // namespace colossal::cli
