// Adds the sends and receives to a pipeline schedule that has only computations. The built-in
// schedules and the parser of schedule files use it.
#pragma once

#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

// Returns `computations` with sends and receives, and with Schedule::buffers = `buffers`. A result
// is sent right after its computation. On each channel, receives are posted in the order of the
// sends, and as early as possible: at most `buffers` posted receives have messages that the rank
// has not used yet. A receive is always posted before the computation that uses its message. If
// that takes more than `buffers` receives, the result is not valid (see validator.h).
//
// Between two computations of a rank, receives come before the send. So if two ranks send to each
// other, both have posted their receives before, and neither waits for the other.
Schedule with_communication(Schedule computations, int buffers);

}  // namespace colossal::parallel::pipeline
