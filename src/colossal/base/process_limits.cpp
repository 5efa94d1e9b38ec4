#include "colossal/base/process_limits.h"

#include <sys/resource.h>

#include <algorithm>
#include <future>
#include <system_error>
#include <thread>
#include <vector>

#include "colossal/base/error.h"

namespace colossal::machine {
namespace {

// Starts up to `wanted` threads that exist at the same time. Returns how many could be started.
int startable_threads(int wanted) {
  std::promise<void> all_counted;
  const std::shared_future<void> end = all_counted.get_future().share();
  std::vector<std::thread> threads;
  try {
    while (static_cast<int>(threads.size()) < wanted) threads.emplace_back([end] { end.wait(); });
  } catch (const std::system_error&) {
  }
  all_counted.set_value();
  for (std::thread& thread : threads) thread.join();
  return static_cast<int>(threads.size());
}

std::string describe_process_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NPROC, &limit);
  return limit.rlim_cur == RLIM_INFINITY
             ? "see pids.max of its control group"
             : fmt::format("ulimit -u is {}; see also pids.max of its control group",
                           limit.rlim_cur);
}

}  // namespace

void require_open_files(int64_t files, const std::string& what) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur >= static_cast<rlim_t>(files)) return;
  throw ConfigError(
      fmt::format("a process may have {} files open here (ulimit -n), but {} need up to {} in one "
                  "process: raise the limit",
                  limit.rlim_cur, what, files));
}

void require_threads(int train_threads, int others, const std::string& beside) {
  const int times = beside.empty() ? 1 : 2;
  const int started = startable_threads(times * train_threads + others);
  if (started == times * train_threads + others) return;
  const std::string without = beside.empty() ? "" : fmt::format(", do without {}", beside);
  const std::string remedy =
      started >= others + times
          ? fmt::format("use train.threads = {} or less{}, or raise the limit",
                        (started - others) / times, without)
          : fmt::format("raise the limit{}", without);
  throw ConfigError(
      fmt::format("train.threads = {}: a rank needs {} threads in addition to these{}, but only {} "
                  "could be started in total ({}): {}",
                  train_threads, others,
                  beside.empty() ? "" : fmt::format(", and as many again for {}", beside), started,
                  describe_process_limit(), remedy));
}

}  // namespace colossal::machine
