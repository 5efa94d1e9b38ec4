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

LossSum cross_entropy(models::LanguageModel& model, const at::Tensor& x, const data::Batch& batch,
                      const nn::StepContext& context) {
  return {.sum = model.head_loss_sum(x, batch.at(data::kLabels), context),
          .count = batch.at(data::kLabels).ne(ops::kIgnoredLabel).sum().item<int64_t>()};
}

LossSum cross_entropy_of_all(models::LanguageModel& model, const at::Tensor& x,
                             const data::Batch& batch, const nn::StepContext& context) {
  return {.sum = model.head_loss_sum(x, batch.at(data::kLabels), context),
          .count = batch.at(data::kLabels).numel()};
}

namespace {

// Number of tensors of an encoder-decoder with relative positions.
constexpr size_t kMostStreams = 4;

// Returns the streams that are defined.
StageState tensors_of(const models::Streams& streams) {
  StageState tensors{streams.x};
  for (const at::Tensor& tensor : {streams.other, streams.encoder_bias, streams.decoder_bias}) {
    if (tensor.defined()) tensors.push_back(tensor);
  }
  return tensors;
}

// The inverse of tensors_of(): a model has one stream, both streams, or also both biases.
models::Streams streams_of(std::span<const at::Tensor> tensors) {
  models::Streams streams{.x = tensors.front()};
  if (tensors.size() > 1) streams.other = tensors[1];
  if (tensors.size() > 2) {
    streams.encoder_bias = tensors[2];
    streams.decoder_bias = tensors[3];
  }
  return streams;
}

}  // namespace

StagedModel stages_of(models::LanguageModel& model, const Strategy& strategy, HeadLoss loss,
                      RouterLoss router_loss) {
  const auto run = [&model, strategy, loss = std::move(loss), router_loss = std::move(router_loss)](
                       int stage, const StageState& state, const data::Batch& batch,
                       const nn::StepContext& context) -> StageResult {
    nn::StepContext recorded = context;
    nn::RouterRecords nobody_asked;
    if (!recorded.router_records) recorded.router_records = &nobody_asked;
    recorded.router_records->for_losses = router_loss != nullptr;
    const size_t num_streams = !context.source ? 1 : state.size() < kMostStreams ? 2 : kMostStreams;
    models::Streams streams =
        stage == 0 ? model.inputs(batch, context) : streams_of({state.begin(), num_streams});
    streams =
        model.run_blocks(strategy.blocks_of_stage(stage, model.num_blocks()), streams, recorded);
    const at::Tensor& x = streams.x;
    at::Tensor records;
    if (router_loss) {
      // Stages before the first experts pass on no records.
      const bool has_records = state.size() > num_streams;
      records = append_router_records(has_records ? state.back() : at::Tensor(),
                                      *recorded.router_records);
    }
    if (stage + 1 < strategy.num_stages()) {
      StageState passed = tensors_of(streams);
      if (records.defined()) passed.push_back(records);
      return {std::move(passed), {}};
    }
    // In an evaluation a rank may have no sequences, and run only for its experts.
    if (batch.rows() == 0) return {};
    LossSum sum = loss(model, x, batch, context);
    if (records.defined() && at::GradMode::is_enabled()) {
      const at::Tensor term =
          router_loss(records, static_cast<double>(sum.count) / sum.copies, context);
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
