// Computes, without a device, the time that a pipeline schedule takes, from the costs of its
// computations and messages. Plans use it to compare schedules. Each rank runs one computation, or
// one overlapping pair, at a time; messages travel while ranks compute. execution.h states the
// rules. All times have the unit of the costs.
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
  double busy = 0;     // total time in which the rank computes
  InFlight in_flight;  // maximum numbers of micro-batches that the rank holds

  // Returns the time that the rank waits between its first and its last computation, as P. Qi et
  // al. 2023 ("Zero Bubble Pipeline Parallelism") define the bubble. Their ranks do not wait for
  // each other between steps, so other steps fill the time before the first and after the last
  // computation. Simulation::idle() counts also the time before and after.
  double bubble() const { return end - start - busy; }
};

struct Simulation {
  std::vector<std::vector<Span>> spans;  // [ranks][actions]: when each action begins and ends
  std::vector<SimulatedRank> ranks;
  double makespan = 0;  // when the last computation of all ranks ends; time begins at 0

  // Returns the time until makespan in which the rank does not compute.
  double idle(int rank) const { return makespan - ranks[rank].busy; }
  // Returns the share of the ranks' time that is idle: the sum of idle(), not of bubble(), over all
  // ranks, divided by makespan * ranks; 0 if makespan is 0.
  double bubble_share() const;
};

// Simulates a schedule. costs: by default, a forward, an input gradient and a weight gradient take
// a time of 1 each (so a whole backward pass takes 2), and messages take none. Throws InternalError
// if a rank cannot carry out all its actions; first_conflict() (validator.h) then tells the reason.
Simulation simulate(const Schedule& schedule, const Costs& costs = {});

}  // namespace colossal::parallel::pipeline
