#include "colossal/cluster/stop_request.h"

#include <algorithm>
#include <utility>

namespace colossal::cluster {
namespace {

constexpr std::chrono::seconds kOneRequest(1);

}  // namespace

void ignore_sigpipe() {
  std::signal(SIGPIPE, SIG_IGN);
}

bool any_stop_signal(const std::vector<int>& signals) {
  return std::find_first_of(signals.begin(), signals.end(), kStopSignals.begin(),
                            kStopSignals.end()) != signals.end();
}

StopRequests::Meaning StopRequests::take(int signal, Clock::time_point now) {
  const Meaning meaning = std::exchange(any_, true) ? Meaning::repeated : Meaning::first;
  if (signal == SIGUSR1) return meaning;
  if (asked_ && now - *asked_ >= kOneRequest) return Meaning::insists;
  if (!asked_) asked_ = now;
  return meaning;
}

}  // namespace colossal::cluster
