// When a rank computed, or waited for a message, in its pipeline's schedule.
#pragma once

#include <cstdint>

#include "colossal/parallel/pipeline/schedule.h"

namespace colossal {

struct TimedAction {
  // If `waits` is false: the computation. If it is true: the send or receive that the rank waited
  // for.
  parallel::pipeline::Action action;
  bool waits = false;
  int64_t step = 0;  // counts from 1
  // Seconds of the steady clock of the rank's host. On a GPU, these are the times when the work was
  // issued, not when it ran.
  double begin = 0;
  double end = 0;

  double seconds() const { return end - begin; }
};

}  // namespace colossal
