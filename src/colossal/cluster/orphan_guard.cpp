#include "colossal/cluster/orphan_guard.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <set>
#include <thread>

namespace colossal::cluster {
namespace {

// Runs in the guard process. Reads process groups to add, and negative ones to remove, until the
// launcher's end of the pipe is closed. Then kills the groups that are left, and removes the
// folder.
void guard(const std::filesystem::path& folder) {
  std::set<pid_t> groups;
  pid_t group = 0;
  while (read(STDIN_FILENO, &group, sizeof group) == sizeof group) {
    if (group > 0) groups.insert(group);
    if (group < 0) groups.erase(-group);
  }
  for (const pid_t left : groups) kill(-left, SIGKILL);
  if (folder.empty()) return;
  // The killed processes may still create files for a moment.
  constexpr int kAttempts = 50;
  std::error_code failure;
  for (int i = 0; i < kAttempts && std::filesystem::exists(folder, failure); ++i) {
    std::filesystem::remove_all(folder, failure);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace

OrphanGuard::OrphanGuard(const std::filesystem::path& folder)
    : guard_(start_guard_process(
          "cannot start the process that ends processes which ranks leave behind",
          [&] { guard(folder); })) {}

OrphanGuard::~OrphanGuard() {
  kill(guard_.pid, SIGKILL);
  waitpid(guard_.pid, nullptr, 0);
}

void OrphanGuard::add(pid_t group) {
  [[maybe_unused]] const ssize_t size = write(guard_.to_guard.get(), &group, sizeof group);
}

void OrphanGuard::remove(pid_t group) {
  add(-group);
}

}  // namespace colossal::cluster
