#include "colossal/cluster/signal_queue.h"

#include <sys/signalfd.h>

#include "colossal/base/error.h"

namespace colossal::cluster {
namespace {

bool is_ignored(int signal) {
  struct sigaction action {};
  sigaction(signal, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

}  // namespace

SignalQueue::SignalQueue(std::span<const int> signals) {
  sigset_t mask;
  sigemptyset(&mask);
  for (const int signal : signals) {
    // If the caller ignored SIGCHLD, the kernel would drop the exit statuses of our children.
    if (signal == SIGCHLD) std::signal(SIGCHLD, SIG_DFL);
    // A blocked signal is queued even if it is ignored. So signals that are ignored are not
    // blocked.
    if (!is_ignored(signal)) sigaddset(&mask, signal);
  }
  sigprocmask(SIG_BLOCK, &mask, &mask_before_);
  fd_ = FileDescriptor(signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
  COLOSSAL_CHECK(fd_, "signalfd gave {}", fd_.get());
}

SignalQueue::~SignalQueue() {
  sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
}

std::vector<int> SignalQueue::take() {
  std::vector<int> signals;
  signalfd_siginfo info;
  while (read(fd_.get(), &info, sizeof info) == sizeof info) {
    signals.push_back(static_cast<int>(info.ssi_signo));
  }
  return signals;
}

NoSignals::NoSignals() {
  sigset_t mask;
  sigfillset(&mask);
  // Blocked, they would end the process before a handler of crashes could report them.
  for (const int of_errors : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS}) {
    sigdelset(&mask, of_errors);
  }
  pthread_sigmask(SIG_BLOCK, &mask, &mask_before_);
}

NoSignals::~NoSignals() {
  pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

}  // namespace colossal::cluster
