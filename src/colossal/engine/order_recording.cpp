#include "colossal/engine/order_recording.h"

#include <ATen/TensorOperators.h>

#include <utility>

#include "colossal/comm/world.h"
#include "colossal/engine/dry_loss.h"
#include "colossal/engine/engine.h"
#include "colossal/engine/state_shapes.h"
#include "colossal/job/batch_specification.h"
#include "colossal/models/assembly.h"
#include "colossal/ops/fallback/meta_kernels.h"

namespace colossal {
namespace {

// Uses all weights that a task may use. A task that uses fewer weights uses them in the same order.
LossSum all_heads(models::Model& model, const nn::BlockState& state, const data::Batch& batch,
                  const nn::StepContext& context) {
  LossSum loss = cross_entropy_of_all(model, state, batch, context);
  loss.sum = loss.sum + model.value_head().values(state.output(), context).sum();
  return loss;
}

}  // namespace

memory::OrderOfStages record_order(const Job& job, int rank, HeadLoss loss) {
  ops::register_meta_kernels();
  const auto world = comm::dry_world(rank, job.strategy.world_size());
  const ParallelContext context(*world, job.strategy, at::kMeta);
  const models::Assembly assembly = models::assemble(job.model, context);
  EngineConfig config = engine_config(job);
  if (!loss && job.model.transformer.value_head) loss = all_heads;
  if (!loss) {
    DryLoss own = dry_loss(job, context);
    loss = std::move(own.loss);
    config.metrics = std::move(own.metrics);
  }
  Engine engine(assembly.parameters(),
                pipelined(*assembly.model, model_source_of(job), context, loss), context, config);
  const data::Batch micro_batch = batch_specification(job).make(job.micro_batch, at::kMeta);
  // One micro-batch shows the order, but a pipeline schedule from a file requires the step's number
  // of micro-batches.
  engine.step(std::vector(job.strategy.pp > 1 ? job.num_micro_batches() : 1, micro_batch));
  return engine.chunks().order_of_use();
}

EngineConfig ordered_engine_config(const Job& job, int rank, HeadLoss loss) {
  EngineConfig config = engine_config(job);
  if (job.weights_are_transient()) config.order = record_order(job, rank, std::move(loss));
  return config;
}

}  // namespace colossal
