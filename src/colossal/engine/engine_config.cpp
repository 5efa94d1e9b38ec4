#include "colossal/engine/engine_config.h"

#include "colossal/job/pipeline_config.h"

namespace colossal {

memory::ChunkOptions chunk_options(const EngineConfig& config) {
  return {.working = config.precision.compute,
          .master = config.precision.master,
          .gradient = config.precision.gradient,
          .chunk_bytes = config.chunk_bytes,
          .reduce_once_per_step = config.reduce_once_per_step,
          .window_bytes = config.window_bytes,
          .uses_parameter_handles = config.uses_parameter_handles,
          .tiers = config.tiers};
}

std::shared_ptr<const optim::ParameterGroups> parameter_groups(
    const optim::OptimizerConfig& config, const nn::ParameterList& parameters) {
  auto groups = std::make_shared<const optim::ParameterGroups>(config);
  groups->apply(parameters);
  return groups;
}

EngineConfig engine_config(const Job& job) {
  return {.optimizer = job.config.optimizer,
          .schedule = job.config.scheduler,
          .total_steps = job.config.train.steps,
          .global_batch = job.config.train.global_batch,
          .gradient_clip = job.config.train.gradient_clip,
          .seed = static_cast<uint64_t>(job.config.train.seed),
          .precision = job.precision,
          .reduce_once_per_step = job.config.parallel.accumulate == "full",
          .recompute = job.recompute,
          .tiers = job.tiers,
          .stage_costs = job.strategy.pp > 1
                             ? stage_costs(job.strategy, job.model.facts, job.sequence_length)
                             : parallel::pipeline::Costs{},
          .num_blocks = job.model.facts.experts > 0 ? job.model.facts.layers : 0,
          .experts = job.model.facts.experts,
          .routers_drop = job.config.experts.capacity_factor > 0,
          .router_bias_rate = job.config.experts.bias_rate};
}

}  // namespace colossal
