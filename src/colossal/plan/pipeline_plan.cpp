#include "colossal/plan/pipeline_plan.h"

#include "colossal/job/pipeline_config.h"
#include "colossal/parallel/pipeline/drawing.h"

namespace colossal::plan {
namespace {

using parallel::pipeline::Costs;

// Converts costs in FLOPs per token to a rank's GFLOPs per micro-batch.
Costs in_gflop(Costs costs, const Job& job) {
  const Strategy& strategy = job.strategy;
  const double factor = 1e-9 * static_cast<double>(job.micro_batch * job.sequence_length) /
                        (strategy.sp * strategy.tp);
  for (parallel::pipeline::StageCosts& stage : costs.stages) {
    stage.forward *= factor;
    stage.input_gradient *= factor;
    stage.weight_gradient *= factor;
  }
  return costs;
}

}  // namespace

PipelinePlan plan_pipeline(const Job& job) {
  const Costs costs = stage_costs(job.strategy, job.model.facts, job.sequence_length);
  PipelinePlan plan{.schedule = training_schedule(job.strategy, costs, job.num_micro_batches()),
                    .simulation = {}};
  plan.simulation = simulate(plan.schedule, in_gflop(costs, job));
  return plan;
}

report::Timeline timeline_of(const PipelinePlan& plan) {
  return parallel::pipeline::timeline_of(plan.schedule, plan.simulation, "GFLOP");
}

}  // namespace colossal::plan
