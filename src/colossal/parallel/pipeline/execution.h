// Carries out a schedule in simulated time, without computing anything. The validator uses it to
// find deadlocks, the simulator to compute times.
#pragma once

#include <vector>

#include "colossal/parallel/pipeline/costs.h"
#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

// When an action began and ended, in the unit of the costs. Time begins at 0.
struct Span {
  double start = 0;
  double end = 0;
};

// The result of execute().
struct Execution {
  std::vector<std::vector<Span>> spans;    // [ranks][actions]; zeros for actions not carried out
  std::vector<std::vector<bool>> reached;  // [ranks][actions]: whether the action was carried out
  std::vector<double> busy;                // [ranks]: time in computations
  // [ranks]: index of the action that the rank could not begin (deadlock), or the number of the
  // rank's actions if it carried out all of them.
  std::vector<int> stopped_at;

  bool complete() const;  // whether all ranks carried out all actions
};

// Carries out the actions of each rank in order, until no rank can go on. A channel carries the
// messages between two neighbouring stages in one direction.
//
// - A computation starts when its rank is free and the message that it uses, if any, has arrived.
// - A send takes the rank no time. But if Schedule::buffers messages have been sent on its channel
//   whose receives are not posted yet, the rank first waits until one of these receives is posted.
// - A receive is posted for the next message of its channel and takes the rank no time.
// - The transfer of a message starts when the message has been sent, its receive has been posted,
//   and the message before it on its channel has arrived.
// - If costs.overlapped_share is set, a computation with overlaps_next and the next computation of
//   the rank run as a pair. The pair starts when the rank is free and the messages of both have
//   arrived, and takes the sum of both times, multiplied by overlapped_share. Both get the Span of
//   the pair. Receives between the two are posted before the pair; sends between the two follow it.
//
// The schedule must have the sends and receives of all computations. Each channel must have its
// sends and its receives in the same order. A computation must come after the computations of its
// rank whose results it uses.
Execution execute(const Schedule& schedule, const Costs& costs);

// Returns the index of the first computation after index `position` in `actions`; -1 if there is
// none. If actions[position].overlaps_next is true, actions[position] and the returned computation
// are a pair.
int overlap_partner(const std::vector<Action>& actions, int position);

}  // namespace colossal::parallel::pipeline
