#include "colossal/engine/staged_model.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <span>
#include <utility>

#include "colossal/data/text_batch.h"
#include "colossal/ops/loss/linear_cross_entropy.h"

namespace colossal {

StagedModel one_stage(LossFunction loss) {
  return {.run = [loss = std::move(loss)](int, const StageState&, const data::Batch& batch,
                                          const nn::StepContext& context) {
    return StageResult{{}, loss(batch, context)};
  }};
}

StagedModel as_in_training(StagedModel model) {
  model.context = [context = model.context](const data::Batch& batch, const nn::StepContext& base,
                                            const nn::SequencePart& part) {
    nn::StepContext training = base;
    training.training = true;
    return context(batch, training, part);
  };
  return model;
}

LossSum cross_entropy(models::Model& model, const nn::BlockState& state, const data::Batch& batch,
                      const nn::StepContext& context) {
  return {.sum = model.token_head().loss_sum(state.output(), batch.at(data::kLabels), context),
          .count = batch.at(data::kLabels).ne(ops::kIgnoredLabel).sum()};
}

LossSum cross_entropy_of_all(models::Model& model, const nn::BlockState& state,
                             const data::Batch& batch, const nn::StepContext& context) {
  return {.sum = model.token_head().loss_sum(state.output(), batch.at(data::kLabels), context),
          .count = batch.at(data::kLabels).numel()};
}

namespace {

// The inverse of BlockState::tensors(), of the first tensors of `state`.
nn::BlockState block_state_of(const models::Model& model, const StageState& state) {
  const auto conditions = state.begin() + model.num_streams();
  return {{state.begin(), conditions}, {conditions, conditions + model.num_conditions()}};
}

}  // namespace

StagedModel stages_of(models::Model& model, const Strategy& strategy, HeadLoss loss,
                      RouterLoss router_loss) {
  const auto run = [&model, strategy, loss = std::move(loss), router_loss = std::move(router_loss)](
                       int stage, const StageState& state, const data::Batch& batch,
                       const nn::StepContext& context) -> StageResult {
    nn::StepContext recorded = context;
    nn::RouterRecords nobody_asked;
    nn::RouterRecords*& records_of_step = recorded.services.router_records;
    if (!records_of_step) records_of_step = &nobody_asked;
    records_of_step->for_losses = router_loss != nullptr;
    nn::BlockState blocks =
        stage == 0 ? model.inputs(batch, context) : block_state_of(model, state);
    blocks =
        model.run_blocks(strategy.blocks_of_stage(stage, model.num_blocks()), blocks, recorded);
    at::Tensor records;
    if (router_loss) {
      // Stages before the first experts pass on no records.
      const bool has_records = std::ssize(state) > model.num_streams() + model.num_conditions();
      records = append_router_records(has_records ? state.back() : at::Tensor(), *records_of_step);
    }
    if (stage + 1 < strategy.num_stages()) {
      StageState passed = blocks.tensors();
      if (records.defined()) passed.push_back(records);
      return {std::move(passed), {}};
    }
    // In an evaluation a rank may have no sequences, and run only for its experts.
    if (batch.rows() == 0) return {};
    LossSum sum = loss(model, blocks, batch, context);
    if (records.defined() && at::GradMode::is_enabled()) {
      const at::Tensor term = router_loss(records, sum.count / sum.copies, context);
      sum.router_term = term.detach();
      sum.sum = sum.sum + (term - sum.router_term).to(sum.sum.scalar_type());
    }
    return {{}, std::move(sum)};
  };
  return {.run = run,
          .context = [&model](const data::Batch& batch, const nn::StepContext& base,
                              const nn::SequencePart& part) {
            return model.context_of(batch, base, part);
          }};
}

}  // namespace colossal
