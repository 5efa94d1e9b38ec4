// Limits how long idle compute threads spin before they release their core. LibTorch's OpenMP spins
// for about 10 ms. On a busy machine, the thread that they wait for may need this core: with two
// other busy processes on two cores, steps of 5 ms took ten times as long.
// OpenMP reads its environment variables once, when it is loaded. So this process executes itself
// again with GOMP_SPINCOUNT set, before its libraries start. Processes that it starts inherit the
// variable. If the user has set OMP_WAIT_POLICY or GOMP_SPINCOUNT, nothing is changed.
#include <unistd.h>

#include <climits>
#include <cstring>
#include <vector>

namespace colossal::cli {
namespace {

// Number of iterations of about 40 ns: long enough for the gap between two kernels, short relative
// to a scheduler slice.
char spin_count[] = "GOMP_SPINCOUNT=1000";

bool begins_with(const char* text, const char* prefix) {
  return std::strncmp(text, prefix, std::strlen(prefix)) == 0;
}

// Uses only its arguments: the C library's own environment is not initialized yet.
void limit_spinning(int, char** arguments, char** environment) {
  std::vector<char*> with_limit;
  for (; *environment; ++environment) {
    if (begins_with(*environment, "OMP_WAIT_POLICY=") ||
        begins_with(*environment, "GOMP_SPINCOUNT=")) {
      return;
    }
    with_limit.push_back(*environment);
  }
  with_limit.insert(with_limit.end(), {spin_count, nullptr});
  char path[PATH_MAX] = {};  // executing the real path keeps the process's name
  const bool is_known = readlink("/proc/self/exe", path, sizeof(path) - 1) > 0;
  execve(is_known ? path : "/proc/self/exe", arguments, with_limit.data());
  // If execve fails, this process continues with the longer spinning.
}
[[gnu::section(".preinit_array"), gnu::used]] void (*const before_openmp)(int, char**,
                                                                          char**) = &limit_spinning;

}  // namespace
}  // namespace colossal::cli
