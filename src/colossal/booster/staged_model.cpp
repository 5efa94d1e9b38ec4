#include "colossal/booster/staged_model.h"

#include <utility>

namespace colossal {

StagedModel one_stage(LossFunction loss) {
  return {.run =
              [loss = std::move(loss)](int, const StageState&, const data::Batch& batch,
                                       const nn::StepContext& context) {
                return StageResult{{}, loss(batch, context)};
              },
          .state_like = {}};
}

StagedModel stages_of(models::LanguageModel& model, const Strategy& strategy, CountLabels count) {
  const auto run = [&model, strategy, count = std::move(count)](
                       int stage, const StageState& state, const data::Batch& batch,
                       const nn::StepContext& context) -> StageResult {
    at::Tensor x = stage == 0 ? model.embed(batch.inputs, context) : state.front();
    x = model.run_blocks(strategy.blocks_of_stage(stage, model.num_blocks()), x, context);
    if (stage + 1 < strategy.num_stages()) return {{x}, {}};
    return {{}, {model.head_loss_sum(x, batch.labels, context), count(batch.labels)}};
  };
  return {.run = run, .state_like = {}};
}

}  // namespace colossal
