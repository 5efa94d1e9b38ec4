// How long a schedule takes, from the costs of its parts: event-driven, without a device. Each rank
// computes one thing after the other; messages travel meanwhile (execution.h has the rules).
#pragma once

#include <vector>

#include "colossal/parallel/pipeline/costs.h"
#include "colossal/parallel/pipeline/execution.h"
#include "colossal/parallel/pipeline/in_flight.h"
#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

struct SimulatedRank {
  double start = 0;  // of its first computation
  double end = 0;    // of its last one
  double busy = 0;   // time in computations
  InFlight in_flight;

  // The time that a rank waits between its first and its last computation. Papers give this bubble:
  // if nothing synchronises the ranks, the next step fills the time before and after.
  double bubble() const { return end - start - busy; }
};

struct Simulation {
  std::vector<std::vector<Span>> spans;  // [ranks][actions]
  std::vector<SimulatedRank> ranks;
  double makespan = 0;  // from the start of the first rank to the end of the last

  double idle(int rank) const { return makespan - ranks[rank].busy; }
  double bubble_share() const;  // of all ranks' time until the end, what is not computation
};

// Times a schedule that the validator finds right.
Simulation simulate(const Schedule& schedule, const Costs& costs = {});

}  // namespace colossal::parallel::pipeline
