#include "colossal/cluster/stop_request.h"

#include <atomic>

namespace colossal::cluster {
namespace {

std::atomic<bool> stop_flag = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may not take a lock");

void set_stop_flag(int) {
  stop_flag.store(true, std::memory_order_relaxed);
}

}  // namespace

void install_stop_handlers() {
  for (const int signal : kStopSignals) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_handler = &set_stop_flag;
    action.sa_flags = SA_RESTART | SA_RESETHAND;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
  }
}

bool stop_requested() noexcept {
  return stop_flag.load(std::memory_order_relaxed);
}

}  // namespace colossal::cluster
