// Plans the pipeline of a job with pp > 1: its schedule, and a simulation of the schedule on all
// ranks, from which the bubble follows.
#pragma once

#include <string>
#include <vector>

#include "colossal/job/job.h"
#include "colossal/parallel/pipeline/in_flight.h"
#include "colossal/parallel/pipeline/schedule.h"
#include "colossal/parallel/pipeline/simulator.h"
#include "colossal/report/timeline.h"

namespace colossal::plan {

struct PipelinePlan {
  parallel::pipeline::Schedule schedule;  // the actions of each rank, in order
  // The simulation of a step. Its times are not in seconds, because nothing has been measured yet,
  // but in GFLOP that a rank computes (10^9 FLOPs). Messages between stages take no time.
  parallel::pipeline::Simulation simulation;

  // Returns the fraction of the step's time, over all ranks of the pipeline, in which a rank
  // computes nothing.
  double bubble_share() const { return simulation.bubble_share(); }
  // Returns the maximum number of micro-batches that a rank holds at the same time. A stage holds a
  // micro-batch from its forward pass until its weight gradients are computed. A micro-batch counts
  // once for each stage of the rank that holds it. pipeline_rank: coordinate of the rank along pp.
  int in_flight(int pipeline_rank) const { return simulation.ranks[pipeline_rank].in_flight.held; }
};

// Returns the plan of a job with pp > 1.
PipelinePlan plan_pipeline(const Job& job);

// Returns the simulation as a timeline (report/timeline.h) with one row per rank; times in GFLOP.
report::Timeline timeline_of(const PipelinePlan& plan);

}  // namespace colossal::plan
