// The messages of a schedule, from the order of its computations.
#pragma once

#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

// Adds the sends and receives to a schedule of computations. A result is sent right after it is
// computed. A message is asked for as early as `buffers` allows: when all but buffers - 1 of the
// messages asked for before it on its channel have been used, and always before its use, in the
// order in which they are sent.
//
// Between two computations receives come before sends, so that two ranks that send to each other
// have both asked for the other's message: neither waits for the other.
Schedule with_communication(Schedule computations, int buffers);

}  // namespace colossal::parallel::pipeline
