#include "colossal/booster/staged_model.h"

#include <utility>

#include "colossal/ops/linear_cross_entropy.h"

namespace colossal {

StagedModel one_stage(LossFunction loss) {
  return {.run =
              [loss = std::move(loss)](int, const StageState&, const data::Batch& batch,
                                       const nn::StepContext& context) {
                return StageResult{{}, loss(batch, context)};
              },
          .state_like = {}};
}

LossSum cross_entropy(models::LanguageModel& model, const at::Tensor& x, const data::Batch& batch,
                      const nn::StepContext& context) {
  return {.sum = model.head_loss_sum(x, batch.labels, context),
          .count = batch.labels.ne(ops::kIgnoredLabel).sum().item<int64_t>()};
}

LossSum cross_entropy_of_all(models::LanguageModel& model, const at::Tensor& x,
                             const data::Batch& batch, const nn::StepContext& context) {
  return {.sum = model.head_loss_sum(x, batch.labels, context), .count = batch.labels.numel()};
}

StagedModel stages_of(models::LanguageModel& model, const Strategy& strategy, HeadLoss loss) {
  const auto run = [&model, strategy, loss = std::move(loss)](
                       int stage, const StageState& state, const data::Batch& batch,
                       const nn::StepContext& context) -> StageResult {
    at::Tensor x = stage == 0 ? model.embed(batch.inputs, context) : state.front();
    x = model.run_blocks(strategy.blocks_of_stage(stage, model.num_blocks()), x, context);
    if (stage + 1 < strategy.num_stages()) return {{x}, {}};
    return {{}, loss(model, x, batch, context)};
  };
  return {.run = run, .state_like = {}};
}

}  // namespace colossal
