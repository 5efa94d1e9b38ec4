// Limits how long idle compute threads spin on their core before they release it. LibTorch's OpenMP
// spins for about 10 ms. On a machine that is not idle that keeps the core from the very thread
// that is waited for: steps of 5 ms beside two busy processes on two cores took ten times as long.
//
// OpenMP reads its environment once, when it is loaded. So this process executes itself once more
// before its libraries start, with GOMP_SPINCOUNT in the environment, which the processes that it
// starts have then, too. A user's own OMP_WAIT_POLICY or GOMP_SPINCOUNT counts instead.
#include <unistd.h>

#include <climits>
#include <cstring>
#include <vector>

namespace colossal::cli {
namespace {

// Turns, of some 40 ns: long enough for the gap between two kernels, short beside a time slice.
char spin_count[] = "GOMP_SPINCOUNT=1000";

bool begins_with(const char* text, const char* prefix) {
  return std::strncmp(text, prefix, std::strlen(prefix)) == 0;
}

// Without the C library's own environment, which is not there yet.
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
  char path[PATH_MAX] = {};  // the process keeps its name where it is executed by its path
  const bool is_known = readlink("/proc/self/exe", path, sizeof(path) - 1) > 0;
  execve(is_known ? path : "/proc/self/exe", arguments, with_limit.data());
  // Where that fails it goes on as it is: slower beside others, no worse.
}
[[gnu::section(".preinit_array"), gnu::used]] void (*const before_openmp)(int, char**,
                                                                          char**) = &limit_spinning;

}  // namespace
}  // namespace colossal::cli
