#include "colossal/cluster/restart_policy.h"

#include <algorithm>

namespace colossal::cluster {

RestartPolicy::Decision RestartPolicy::after_failure(bool progressed) {
  if (progressed) restarts_ = 0;
  if (restarts_ >= max_restarts_) return Decision::give_up;
  return ++restarts_ == 1 ? Decision::same : Decision::smaller;
}

std::chrono::seconds RestartPolicy::pause() const {
  constexpr int kMostSeconds = 30, kMostDoublings = 5;
  if (restarts_ <= 1) return std::chrono::seconds(0);
  return std::chrono::seconds(std::min(kMostSeconds, 1 << std::min(restarts_ - 2, kMostDoublings)));
}

}  // namespace colossal::cluster
