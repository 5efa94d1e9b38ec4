// The clocks of ranks on several hosts, related to each other by what they do together.
#pragma once

#include <vector>

#include "colossal/comm/group.h"

namespace colossal {

// A barrier as a rank's own clock saw it, in seconds.
struct PassedBarrier {
  double entered = 0;
  double left = 0;
};

double steady_seconds();  // of this host's clock

// Some barriers in a row. Collective.
std::vector<PassedBarrier> pass_barriers(const comm::Group& group);

// How far the clock of a rank is ahead of that of rank 0, and how wrong that may be.
struct ClockOffset {
  double seconds = 0;
  double uncertainty = 0;
};

// From the same barriers of all ranks, [ranks][barriers]: no rank leaves one before all have
// entered it, which bounds each offset from both sides. Where none at all is possible, as on one
// host, it is taken.
std::vector<ClockOffset> clock_offsets(const std::vector<std::vector<PassedBarrier>>& of_ranks);

}  // namespace colossal
