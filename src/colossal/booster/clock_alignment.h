// Estimates how the clocks of ranks on several hosts differ, from barriers that all ranks pass.
#pragma once

#include <vector>

#include "colossal/comm/group.h"

namespace colossal {

// Times at which a rank entered and left a barrier, in seconds of its own clock: steady_seconds().
struct PassedBarrier {
  double entered = 0;
  double left = 0;
};

double steady_seconds();  // steady clock of this host, in seconds

// Passes several barriers and returns this rank's times. Collective.
std::vector<PassedBarrier> pass_barriers(const comm::Group& group);

// How far a rank's clock is ahead of the clock of rank 0, and the largest possible error, in
// seconds.
struct ClockOffset {
  double seconds = 0;
  double uncertainty = 0;
};

// Computes the offset of each rank. of_ranks: [ranks][barriers]. No rank leaves a barrier before
// all ranks have entered it, which bounds each offset from both sides. The offset is 0 if 0 is
// within the bounds, as it is for ranks on the host of rank 0; otherwise it is the middle of the
// bounds.
std::vector<ClockOffset> clock_offsets(const std::vector<std::vector<PassedBarrier>>& of_ranks);

}  // namespace colossal
