// Computes the time that a pipeline schedule takes, from the costs of its computations and messages
// and without a device. Plans use it to compare schedules. Each rank runs one computation, or one
// overlapping pair, at a time; messages are sent at the same time. execution.h states the rules.
// All times have the unit of the costs.
#pragma once

#include <vector>

#include "colossal/parallel/pipeline/costs.h"
#include "colossal/parallel/pipeline/execution.h"
#include "colossal/parallel/pipeline/in_flight.h"
#include "colossal/parallel/pipeline/schedule.h"

namespace colossal::parallel::pipeline {

struct SimulatedRank {
  double start = 0;    // when the rank's first computation begins
  double end = 0;      // when the rank's last computation ends
  double busy = 0;     // total time of the rank's computations
  InFlight in_flight;  // maximum numbers of micro-batches that the rank holds

  // Returns the time that the rank waits between its first and its last computation. This is the
  // bubble of the literature: if ranks are not synchronized between steps, the steps before and
  // after fill the rest of the rank's idle time.
  double bubble() const { return end - start - busy; }
};

struct Simulation {
  std::vector<std::vector<Span>> spans;  // [ranks][actions]
  std::vector<SimulatedRank> ranks;
  double makespan = 0;  // when the last computation of all ranks ends; time begins at 0

  // Returns the time until makespan in which the rank does not compute.
  double idle(int rank) const { return makespan - ranks[rank].busy; }
  // Returns the sum of idle() over all ranks divided by makespan * ranks; 0 if makespan is 0.
  double bubble_share() const;
};

// Simulates a schedule. Throws InternalError if a rank cannot carry out all its actions;
// first_conflict() (validator.h) then tells the reason.
Simulation simulate(const Schedule& schedule, const Costs& costs = {});

}  // namespace colossal::parallel::pipeline
