#include "colossal/cli/held_signals.h"

#include <csignal>

#include "colossal/cluster/stop_request.h"

namespace colossal::cli {
namespace {

void change_mask(int how) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : cluster::kStopSignals) sigaddset(&signals, signal);
  sigaddset(&signals, SIGHUP);
  sigprocmask(how, &signals, nullptr);
}

void hold_signals(int, char**, char**) {
  change_mask(SIG_BLOCK);
}
[[gnu::section(".preinit_array"),
  gnu::used]] void (*const before_libraries)(int, char**, char**) = &hold_signals;

}  // namespace

void unblock_signals() {
  change_mask(SIG_UNBLOCK);
}

}  // namespace colossal::cli
