#include "colossal/engine/clock_alignment.h"

#include <algorithm>
#include <chrono>
#include <limits>

namespace colossal {

namespace {

// Each barrier bounds the offset between two clocks. The tightest bounds come from barriers that
// all ranks enter and leave at nearly the same time.
constexpr int kBarriers = 16;

ClockOffset offset_between(const std::vector<PassedBarrier>& first,
                           const std::vector<PassedBarrier>& other) {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < first.size(); ++i) {
    least = std::max(least, other[i].entered - first[i].left);
    most = std::min(most, other[i].left - first[i].entered);
  }
  if (least <= 0 && 0 <= most) return {0, std::max(-least, most)};
  return {(least + most) / 2, (most - least) / 2};
}

}  // namespace

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<PassedBarrier> pass_barriers(const comm::Group& group) {
  std::vector<PassedBarrier> passed(kBarriers);
  for (PassedBarrier& barrier : passed) {
    barrier.entered = steady_seconds();
    comm::barrier(group);
    barrier.left = steady_seconds();
  }
  return passed;
}

std::vector<ClockOffset> clock_offsets(const std::vector<std::vector<PassedBarrier>>& of_ranks) {
  std::vector<ClockOffset> offsets{{}};
  for (size_t rank = 1; rank < of_ranks.size(); ++rank) {
    offsets.push_back(offset_between(of_ranks[0], of_ranks[rank]));
  }
  return offsets;
}

}  // namespace colossal
