// The times at which a rank ran an action of its pipeline's schedule.
#pragma once

#include <cstdint>

#include "colossal/parallel/pipeline/schedule.h"

namespace colossal {

struct TimedAction {
  // A computation; or, if `waits` is true, the message that the rank waited for before its next
  // computation.
  parallel::pipeline::Action action;
  bool waits = false;
  int64_t step = 0;
  // Seconds of this host's steady clock. On an accelerator: the time when the work was issued.
  double begin = 0;
  double end = 0;

  double seconds() const { return end - begin; }
};

}  // namespace colossal
