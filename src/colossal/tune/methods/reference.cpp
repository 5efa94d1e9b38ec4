#include "colossal/tune/methods/reference.h"

#include "colossal/engine/state_shapes.h"
#include "colossal/tune/rollout/completion_scores.h"

namespace colossal::tune {

ScoreCollector::ScoreCollector(const ParallelContext& context)
    : ScoreCollector([&context](models::Model& model, const nn::BlockState& state,
                                const data::Batch& batch, const nn::StepContext& step) {
        return score_completions(model, state, batch, step, context).log_probability;
      }) {}

HeadLoss ScoreCollector::head() {
  return [this](models::Model& model, const nn::BlockState& state, const data::Batch& batch,
                const nn::StepContext& step) {
    if (!state.output().is_meta()) found_.push_back(score_(model, state, batch, step));
    return LossSum{};
  };
}

void ScoreCollector::move_to(std::vector<data::Batch>& batches, const char* name) {
  size_t next = 0;
  for (data::Batch& batch : batches) {
    if (next == found_.size()) break;
    if (batch.rows() > 0) batch.set(name, found_[next++]);
  }
  found_.clear();
}

namespace {

StagedModel without_adapter(StagedModel model) {
  const auto run = model.run;
  model.run = [run](int stage, const StageState& state, const data::Batch& batch,
                    const nn::StepContext& context) {
    return run(stage, state, batch, context.without_adapters());
  };
  return model;
}

}  // namespace

bool Reference::is_base(const Job& job) {
  return job.model.adapter && job.model.adapter->base_is_reference();
}

Reference::Reference(const Job& job, const ParallelContext& context, models::Model& model)
    : Reference(job, context, model, ScoreCollector(context)) {}

Reference::Reference(const Job& job, const ParallelContext& context, models::Model& model,
                     ScoreCollector::Score score)
    : Reference(job, context, model, ScoreCollector(std::move(score))) {}

Reference::Reference(const Job& job, const ParallelContext& context, models::Model& model,
                     ScoreCollector collector)
    : collector_(std::move(collector)) {
  if (is_base(job)) {
    base_ = without_adapter(pipelined(model, model_source_of(job), context, collector_.head()));
  } else {
    copy_.emplace(job, context, collector_.head());
  }
}

void Reference::run(const std::vector<data::Batch>& batches, Engine& engine) {
  if (copy_) return copy_->run(batches);
  engine.evaluate(
      batches, [] { return false; }, &base_);
}

void Reference::score(std::vector<data::Batch>& batches, Engine& engine) {
  run(batches, engine);
  collector_.move_to(batches, kScores);
}

std::vector<at::Tensor> Reference::scores_of(const std::vector<data::Batch>& batches,
                                             Engine& engine) {
  run(batches, engine);
  return collector_.take();
}

}  // namespace colossal::tune
