// Adds the sends and receives to a pipeline schedule that has only computations. The built-in
// schedules and the parser of schedule files use it. A channel carries the messages between two
// neighbouring stages in one direction (schedule.h).
#pragma once

#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

// Returns `computations` with sends and receives, and with Schedule::buffers = `buffers`. The
// output of a computation is sent before the rank's next computation. On each channel, receives are
// posted in the order of the sends. Each channel has `buffers` buffers; a posted receive occupies
// one of them until a computation has used its message. A receive is posted as soon as a buffer is
// free. If none is free in time, the receive is still posted before the computation that uses its
// message, but the returned schedule is not valid (see validator.h).
//
// Between two computations of a rank, receives come before the send. So if two ranks send to each
// other, both have posted their receives before, and neither waits for the other.
Schedule with_communication(Schedule computations, int buffers);

}  // namespace colossal::parallel::pipeline
