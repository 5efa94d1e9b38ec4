// Estimates how far the clocks of ranks on several hosts differ, from the times at which the ranks
// pass common barriers. RunTimeline uses this to show the actions of all ranks on one time axis.
#pragma once

#include <vector>

#include "colossal/comm/group.h"

namespace colossal {

// Times at which one rank entered and left a barrier, by the rank's own steady_seconds().
struct PassedBarrier {
  double entered = 0;
  double left = 0;
};

// Returns the time of this host's std::chrono::steady_clock in seconds, from an arbitrary origin.
double steady_seconds();

// Passes 16 barriers of the group and returns this rank's times at each. Collective.
std::vector<PassedBarrier> pass_barriers(const comm::Group& group);

// Difference between the steady_seconds() of a rank and of rank 0 at the same moment.
struct ClockOffset {
  double seconds = 0;      // estimate; positive: the rank's clock is ahead of rank 0's
  double uncertainty = 0;  // largest possible error of the estimate, in seconds
};

// Computes the offset of each rank; that of rank 0 is 0. of_ranks: results of pass_barriers(),
// [ranks][barriers]. No rank leaves a barrier before all ranks have entered it, so each barrier
// gives a lower and an upper bound of each offset. The estimate is 0 if 0 is within the bounds, as
// for ranks on the host of rank 0; otherwise it is the middle of the bounds.
std::vector<ClockOffset> clock_offsets(const std::vector<std::vector<PassedBarrier>>& of_ranks);

}  // namespace colossal
