// Goes through a schedule in simulated time without computing anything. Used by the validator and
// the simulator.
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
  std::vector<std::vector<Span>> spans;    // [ranks][actions]; zero for actions not reached
  std::vector<std::vector<bool>> reached;  // [ranks][actions]: carried out
  std::vector<double> busy;                // [ranks]: time in computations
  // [ranks]: index of the action at which the rank was stuck; the number of its actions if it came
  // to its end.
  std::vector<int> stopped_at;

  bool complete() const;
};

// Carries out each rank's actions in order until every rank has ended or is stuck:
//
// - A computation starts when its rank is free and the message that it uses, if any, has arrived.
// - A send takes the rank no time. But if `buffers` messages have been sent on its channel whose
//   receives are not posted yet, it first waits until one of these is posted.
// - A receive is posted for the next message of its channel, and does not wait.
// - A message starts to travel when it has been sent, its receive has been posted, and the message
//   before it on its channel has arrived.
// - If costs.overlapped_share is set, a computation with overlaps_next and the next one run as a
//   pair: receives between the two are posted before both, and sends between them follow both.
//
// The schedule must have the sends and receives of all computations, in the same order on each
// channel; and a computation must come after those of its own rank whose results it uses.
Execution execute(const Schedule& schedule, const Costs& costs);

// Returns the index of the computation that may run at the same time as the one at `position`: the
// next computation in `actions`. -1: there is none.
int overlap_partner(const std::vector<Action>& actions, int position);

}  // namespace colossal::parallel::pipeline
