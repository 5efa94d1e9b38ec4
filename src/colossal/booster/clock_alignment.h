// Finds how far the clocks of ranks on several hosts are apart, from barriers that all ranks pass.
#pragma once

#include <vector>

#include "colossal/comm/group.h"

namespace colossal {

// When a rank entered and left a barrier, in seconds of its own clock.
struct PassedBarrier {
  double entered = 0;
  double left = 0;
};

double steady_seconds();  // of this host's clock

// Passes some barriers in a row. Collective.
std::vector<PassedBarrier> pass_barriers(const comm::Group& group);

// How far a rank's clock is ahead of rank 0's, and the largest error of that, in seconds.
struct ClockOffset {
  double seconds = 0;
  double uncertainty = 0;
};

// Computes each rank's offset from barriers that all ranks passed, [ranks][barriers]. No rank
// leaves a barrier before all have entered it, which bounds each offset from both sides. If 0 lies
// within the bounds, as on one host, the offset is 0.
std::vector<ClockOffset> clock_offsets(const std::vector<std::vector<PassedBarrier>>& of_ranks);

}  // namespace colossal
