#include "colossal/booster/staged_model.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

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

StagedModel stages_of(models::LanguageModel& model, const Strategy& strategy, HeadLoss loss,
                      RouterLoss router_loss) {
  const auto run = [&model, strategy, loss = std::move(loss), router_loss = std::move(router_loss)](
                       int stage, const StageState& state, const data::Batch& batch,
                       const nn::StepContext& context) -> StageResult {
    nn::StepContext recorded = context;
    nn::RouterRecords nobody_asked;
    if (!recorded.router_records) recorded.router_records = &nobody_asked;
    recorded.router_records->for_losses = router_loss != nullptr;
    at::Tensor x = stage == 0 ? model.embed(batch.inputs, context) : state.front();
    x = model.run_blocks(strategy.blocks_of_stage(stage, model.num_blocks()), x, recorded);
    at::Tensor records;
    if (router_loss) {
      records = append_router_records(state.size() > 1 ? state[1] : at::Tensor(),
                                      *recorded.router_records);
    }
    if (stage + 1 < strategy.num_stages()) {
      return {records.defined() ? StageState{x, records} : StageState{x}, {}};
    }
    // In an evaluation a rank may have no sequences, and run only for its experts.
    if (batch.inputs.size(0) == 0) return {};
    LossSum sum = loss(model, x, batch, context);
    if (records.defined() && at::GradMode::is_enabled()) {
      const at::Tensor term =
          router_loss(records, static_cast<double>(sum.count) / sum.copies, context);
      sum.router_term = term.detach();
      sum.sum = sum.sum + (term - sum.router_term).to(sum.sum.scalar_type());
    }
    return {{}, std::move(sum)};
  };
  return {.run = run, .state_like = {}};
}

}  // namespace colossal
