// When a rank carried out an action of its pipeline's schedule.
#pragma once

#include <cstdint>

#include "colossal/parallel/pipeline/schedule.h"

namespace colossal {

struct TimedAction {
  // A computation, or, where `waits`, the message that the rank had to wait for before the next
  // one.
  parallel::pipeline::Action action;
  bool waits = false;
  int64_t step = 0;
  // Seconds of this host's steady clock. On an accelerator, when the work was issued.
  double begin = 0;
  double end = 0;

  double seconds() const { return end - begin; }
};

}  // namespace colossal
