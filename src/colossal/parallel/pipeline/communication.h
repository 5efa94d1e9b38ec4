// Derives a schedule's sends and receives from the order of its computations.
#pragma once

#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

// Adds the sends and receives to a schedule that has only computations, and sets its `buffers`. A
// result is sent right after it is computed. On each channel, receives are posted in the order of
// the sends, as early as possible with at most `buffers` posted messages unused. A message is
// always posted before its use, even if that takes more buffers; the validator then refuses the
// schedule.
//
// Between two computations, receives that are posted early come before the send. So two ranks that
// send to each other have both posted the receive of the other's message, and neither waits for the
// other.
Schedule with_communication(Schedule computations, int buffers);

}  // namespace colossal::parallel::pipeline
