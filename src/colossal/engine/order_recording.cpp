#include "colossal/engine/order_recording.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>

#include "colossal/comm/world.h"
#include "colossal/engine/engine.h"
#include "colossal/engine/state_shapes.h"
#include "colossal/ops/fallback/meta_kernels.h"
#include "colossal/parallel/builder.h"

namespace colossal {
namespace {

// Uses all weights that a task may use. A task that uses fewer weights uses them in the same order.
LossSum all_heads(models::LanguageModel& model, const at::Tensor& x, const data::Batch& batch,
                  const nn::StepContext& context) {
  LossSum loss = cross_entropy_of_all(model, x, batch, context);
  loss.sum = loss.sum + model.head_values(x, context).sum();
  return loss;
}

}  // namespace

memory::OrderOfStages record_order(const Job& job, int rank, HeadLoss loss) {
  ops::register_meta_kernels();
  const auto world = comm::dry_world(rank, job.strategy.world_size());
  const ParallelContext context(*world, job.strategy, at::kMeta);
  const auto build = parallel::make_builder(context, models::sharding(job.model));
  const auto model = models::build_model(job.model, *build);
  if (!loss) loss = job.model.transformer.value_head ? all_heads : cross_entropy_of_all;
  Engine engine(build->parameters(), pipelined(*model, model_source_of(job), context, loss),
                context, engine_config(job));
  const at::Tensor tokens = at::empty({job.micro_batch, job.sequence_length},
                                      at::TensorOptions().dtype(at::kLong).device(at::kMeta));
  data::Batch micro_batch{tokens, tokens, std::vector<int64_t>(job.micro_batch)};
  if (job.model.facts.encoder_layers > 0) data::add_source(micro_batch);
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
