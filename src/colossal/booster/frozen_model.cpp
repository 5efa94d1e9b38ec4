#include "colossal/booster/frozen_model.h"

#include "colossal/booster/order_recording.h"
#include "colossal/booster/state_shapes.h"
#include "colossal/checkpoint/model_weights.h"
#include "colossal/parallel/builder.h"

namespace colossal {
namespace {

memory::ChunkOptions chunk_options(const Job& job) {
  return {.working = job.precision.compute,
          .master = job.precision.master,
          .gradient = job.precision.gradient,
          .tiers = {.parameters = job.tiers.parameters, .nvme_path = job.tiers.nvme_path}};
}

// A new adapter adds nothing; the weights stay as the run holds them.
Job without_new_adapter(Job job) {
  if (job.model.adapter && job.model.adapter->weights.empty()) {
    job.model.adapter->products.clear();
    job.model.adapter->trained.clear();
  }
  return job;
}

}  // namespace

FrozenModel::FrozenModel(const Job& of_run, const ParallelContext& context, HeadLoss head)
    : FrozenModel(context, without_new_adapter(of_run), std::move(head)) {}

FrozenModel::FrozenModel(const ParallelContext& context, const Job& job, HeadLoss head)
    : context_(context),
      build_(parallel::make_builder(context, models::sharding(job.model))),
      model_(models::build_model(job.model, *build_)),
      weights_(build_->parameters(), context, chunk_options(job),
               ordered_engine_config(job, context.rank()).order),
      activations_(weights_, {}, {}),
      stages_(pipelined(*model_, source_of(job), context, std::move(head))),
      executor_(context, stages_, weights_, activations_, {}) {
  if (job.model.weights.empty()) {
    weights_.initialise(static_cast<uint64_t>(job.config.train.seed));
  } else {
    checkpoint::read_model(job.model, weights_);
  }
}

FrozenModel::~FrozenModel() = default;

void FrozenModel::run(const std::vector<data::Batch>& micro_batches) {
  ControlMessage unused;
  executor_.evaluate(stages_, micro_batches, {}, unused);
}

}  // namespace colossal
