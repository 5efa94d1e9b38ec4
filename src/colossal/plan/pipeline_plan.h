// The schedule that the pipeline of a run would follow, and how its ranks' time would pass.
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
  // Costs are GFLOP of one rank: of messages nothing is known before there are measurements.
  parallel::pipeline::Simulation simulation;

  double bubble_share() const { return simulation.bubble_share(); }
  // Of a rank along pp: micro-batches between their forward pass and the gradients of weights.
  int in_flight(int pipeline_rank) const { return simulation.ranks[pipeline_rank].in_flight.held; }
};

// Of a job with pp > 1.
PipelinePlan plan_pipeline(const Job& job);

report::Timeline timeline_of(const PipelinePlan& plan);

}  // namespace colossal::plan
