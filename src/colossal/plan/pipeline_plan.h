// The schedule of a job's pipeline, and a simulation of its ranks over time.
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
  // Times are in GFLOP of one rank instead of seconds, because nothing has been measured yet.
  // Messages take no time.
  parallel::pipeline::Simulation simulation;

  double bubble_share() const { return simulation.bubble_share(); }
  // Returns the largest number of forward passes of a rank's stages whose weight gradients are not
  // computed yet. pipeline_rank: coordinate of the rank along pp.
  int in_flight(int pipeline_rank) const { return simulation.ranks[pipeline_rank].in_flight.held; }
};

// Plans the pipeline of a job with pp > 1.
PipelinePlan plan_pipeline(const Job& job);

// Returns the simulation as a timeline in GFLOP.
report::Timeline timeline_of(const PipelinePlan& plan);

}  // namespace colossal::plan
