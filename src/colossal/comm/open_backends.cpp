#include "colossal/comm/open_backends.h"

#include <fmt/ranges.h>

namespace colossal::comm {

std::string OpenBackends::next_name(const Membership& membership) {
  const std::string name = fmt::format("{}/{}", membership.axis, fmt::join(membership.ranks, ","));
  return fmt::format("{}/{}", name, made_[name]++);
}

void OpenBackends::add(const std::shared_ptr<Backend>& backend) {
  const std::lock_guard lock(mutex_);
  backends_.push_back(backend);
  if (!aborted_.empty()) backend->abort(aborted_);
}

void OpenBackends::abort(const std::string& why) {
  const std::lock_guard lock(mutex_);
  aborted_ = why;
  for (const auto& weak : backends_) {
    if (const auto backend = weak.lock()) backend->abort(why);
  }
}

}  // namespace colossal::comm
