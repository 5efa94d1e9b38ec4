// Estimates the clock differences between ranks on several hosts from barriers that all ranks pass.
#pragma once

#include <vector>

#include "colossal/comm/group.h"

namespace colossal {

// Times at which a rank entered and left a barrier, in seconds of its own clock.
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

// Computes each rank's offset. of_ranks: [ranks][barriers]. No rank leaves a barrier before all
// ranks have entered it; this bounds each offset from both sides. If 0 is within the bounds, as on
// one host, the offset is 0.
std::vector<ClockOffset> clock_offsets(const std::vector<std::vector<PassedBarrier>>& of_ranks);

}  // namespace colossal
