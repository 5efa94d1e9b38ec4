// The begin and end of an action of a pipeline schedule: a computation of a rank, or its wait for a
// message. PipelineExecutor records these, RunTimeline evaluates them.
#pragma once

#include <cstdint>

#include "colossal/parallel/pipeline/schedule.h"

namespace colossal {

struct TimedAction {
  // If `waits` is false: the computation that ran. If `waits` is true: the send or receive that the
  // rank waited for.
  parallel::pipeline::Action action;
  bool waits = false;
  int64_t step = 0;  // number of the training step, from 1
  // Values of steady_seconds() (clock_alignment.h) on the rank's host, in seconds. With a GPU, a
  // computation begins and ends when the host begins and ends to issue its work; the GPU may run
  // the work later. A wait ends when the message has been transferred, also with a GPU.
  double begin = 0;
  double end = 0;

  double seconds() const { return end - begin; }
};

}  // namespace colossal
