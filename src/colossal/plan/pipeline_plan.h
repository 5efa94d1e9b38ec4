// The schedule that a run's pipeline would follow, and a simulation of its ranks' time.
#pragma once

#include <string>
#include <vector>

#include "colossal/booster/job.h"
#include "colossal/parallel/pipeline/in_flight.h"
#include "colossal/parallel/pipeline/schedule.h"
#include "colossal/parallel/pipeline/simulator.h"
#include "colossal/report/timeline.h"

namespace colossal::plan {

struct PipelinePlan {
  parallel::pipeline::Schedule schedule;
  // Costs are in GFLOP of one rank. Messages cost nothing, as nothing has been measured yet.
  parallel::pipeline::Simulation simulation;

  double bubble_share() const { return simulation.bubble_share(); }
  // Returns the most micro-batches that a rank along pp has between their forward pass and their
  // gradients of weights.
  int in_flight(int pipeline_rank) const { return simulation.ranks[pipeline_rank].in_flight.held; }
};

// Plans the pipeline of a job with pp > 1.
PipelinePlan plan_pipeline(const Job& job);

report::Timeline timeline_of(const PipelinePlan& plan);

}  // namespace colossal::plan
