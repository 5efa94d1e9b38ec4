// Computes how long a schedule takes from the costs of its computations and messages, without a
// device. Each rank runs one computation (or one overlapping pair) at a time; messages travel
// meanwhile. execution.h states the rules.
#pragma once

#include <vector>

#include "colossal/parallel/pipeline/costs.h"
#include "colossal/parallel/pipeline/execution.h"
#include "colossal/parallel/pipeline/in_flight.h"
#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

struct SimulatedRank {
  double start = 0;  // of the rank's first computation
  double end = 0;    // of its last computation
  double busy = 0;   // time in computations
  InFlight in_flight;

  // The time that the rank waits between its first and its last computation. Papers state this
  // bubble: if nothing synchronizes the ranks between steps, the neighbouring steps fill the time
  // before and after.
  double bubble() const { return end - start - busy; }
};

struct Simulation {
  std::vector<std::vector<Span>> spans;  // [ranks][actions]
  std::vector<SimulatedRank> ranks;
  double makespan = 0;  // from the start of the first rank to the end of the last

  double idle(int rank) const { return makespan - ranks[rank].busy; }
  double bubble_share() const;  // fraction of all ranks' time up to makespan without computation
};

// Times a schedule. Throws InternalError if it cannot run to its end; the validator finds out why.
// Times have the unit of `costs`.
Simulation simulate(const Schedule& schedule, const Costs& costs = {});

}  // namespace colossal::parallel::pipeline
