#include "colossal/engine/state_shapes.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <utility>

#include "colossal/comm/world.h"
#include "colossal/engine/meta_parameters.h"
#include "colossal/memory/memory_ledger.h"
#include "colossal/models/families.h"
#include "colossal/ops/fallback/meta_kernels.h"
#include "colossal/parallel/builder.h"
#include "colossal/parallel/sequence/positions.h"

namespace colossal {

struct StateShapes::DryModel {
  DryModel(const ModelSource& source, const ParallelContext& real)
      : world(comm::dry_world(real.rank(), real.world().size())),
        context(*world, real.strategy(), at::kMeta),
        build(parallel::make_builder(context, source.shardings)),
        model(source.make(*build)),
        stages(stages_of(*model, real.strategy(), cross_entropy_of_all,
                         make_router_loss(source.router_losses, context))) {
    make_meta_tensors(build->parameters(), source.compute);
  }

  std::unique_ptr<comm::World> world;
  ParallelContext context;
  std::unique_ptr<nn::Builder> build;
  std::unique_ptr<models::Model> model;
  StagedModel stages;
};

ModelSource model_source_of(const Job& job) {
  return {
      .shardings = models::shardings(job.model),
      .make = [model = job.model](nn::Builder& build) { return models::build_model(model, build); },
      .compute = job.precision.compute,
      .router_losses = job.model.transformer.router_losses};
}

StateShapes::StateShapes(const ModelSource& source, const ParallelContext& context) {
  const memory::MemoryScope nobody_counts;
  ops::register_meta_kernels();
  model_ = std::make_unique<DryModel>(source, context);
}

StateShapes::~StateShapes() = default;

StageState StateShapes::after(int stage, const data::Batch& batch) {
  Key key{stage, {batch.rows()}};
  for (const auto& [name, field] : batch.fields) {
    const auto sizes = field.values.sizes();
    key.second.push_back(field.values.dim());
    key.second.insert(key.second.end(), sizes.begin(), sizes.end());
  }
  const auto found = found_.find(key);
  if (found != found_.end()) return found->second;
  return found_.emplace(key, run(stage, batch)).first->second;
}

StageState StateShapes::run(int stage, const data::Batch& batch) {
  // This dry run is not part of the step that asks for the shapes: neither the memory ledger nor a
  // recorder of operators counts it.
  const memory::MemoryScope nobody_counts;
  const c10::impl::ExcludeDispatchKeyGuard nobody_records(
      c10::DispatchKey::TESTING_ONLY_GenericMode);
  const at::NoGradGuard no_grad;
  data::Batch dry = batch;
  for (auto& [name, field] : dry.fields) field.values = field.values.to(at::kMeta);
  const nn::SequencePart part = parallel::sequence_part(model_->context);
  const nn::StepContext step = model_->stages.context(dry, {}, part);
  const data::Batch here = data::local_batch(dry, part);
  StageState state;
  for (int next = 0; next <= stage; ++next) {
    state = model_->stages.run(next, state, here, step).state;
  }
  return state;
}

StagedModel pipelined(models::Model& model, const ModelSource& source,
                      const ParallelContext& context, HeadLoss loss) {
  StagedModel stages = stages_of(model, context.strategy(), std::move(loss),
                                 make_router_loss(source.router_losses, context));
  if (context.strategy().num_stages() == 1) return stages;
  const auto shapes = std::make_shared<StateShapes>(source, context);
  stages.state_like = [shapes](int stage, const data::Batch& batch) {
    return shapes->after(stage, batch);
  };
  return stages;
}

}  // namespace colossal
