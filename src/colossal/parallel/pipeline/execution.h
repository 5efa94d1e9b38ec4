// Plays a schedule through in time, without computing anything, for the validator and the
// simulator.
#pragma once

#include <vector>

#include "colossal/parallel/pipeline/costs.h"
#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

struct Span {
  double start = 0;
  double end = 0;
};

struct Execution {
  std::vector<std::vector<Span>> spans;    // [ranks][actions], of those that were reached
  std::vector<std::vector<bool>> reached;  // [ranks][actions], whether it was carried out
  std::vector<double> busy;                // [ranks], time in computations
  // [ranks], the action at which it was stuck; the number of its actions where it was not.
  std::vector<int> stopped_at;

  bool complete() const;
};

// Carries out each rank's actions in order, as far as they go:
//
// - A computation starts when the rank is free and its message has arrived.
// - A send does not keep the rank, unless `buffers` messages of its channel are under way that the
//   receiver has not asked for: then it waits until one is.
// - A receive asks for the next message of its channel and does not wait.
// - A message travels from when it is sent and asked for, after the one before it on its channel.
//
// Sends and receives must be there for all computations that need them and be in the same order on
// each channel, and what a computation takes from its own rank must come before it.
Execution execute(const Schedule& schedule, const Costs& costs);

// The place of the computation that may run at the same time as the one at `position`: the next one
// of the rank; -1: there is none.
int overlapped_with(const std::vector<Action>& actions, int position);

}  // namespace colossal::parallel::pipeline
