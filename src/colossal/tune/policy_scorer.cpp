#include "colossal/tune/policy_scorer.h"

#include "colossal/booster/state_shapes.h"

namespace colossal::tune {
namespace {

ScoreCollector::Score token_score(double temperature) {
  return [temperature](models::LanguageModel& model, const at::Tensor& x, const data::Batch& batch,
                       const nn::StepContext& step) {
    return token_log_probabilities(model, x, batch, step, temperature);
  };
}

StagedModel without_adapter(StagedModel model) {
  const auto run = model.run;
  model.run = [run](int stage, const StageState& state, const data::Batch& batch,
                    const nn::StepContext& context) {
    nn::StepContext base = context;
    base.adapted = false;
    return run(stage, state, batch, base);
  };
  return model;
}

}  // namespace

at::Tensor token_log_probabilities(models::LanguageModel& model, const at::Tensor& x,
                                   const data::Batch& batch, const nn::StepContext& step,
                                   double temperature) {
  nn::StepContext tempered = step;
  tempered.temperature = temperature;
  return model.head_log_probabilities(x, batch.labels, tempered);
}

PolicyScorer::PolicyScorer(const Job& job, const ParallelContext& context,
                           models::LanguageModel& model, double temperature, bool with_reference)
    : collector_(token_score(temperature)),
      policy_(pipelined(model, source_of(job), context, collector_.head())) {
  if (!with_reference) return;
  if (job.model.adapter && job.model.adapter->weights.empty()) {
    base_ = without_adapter(policy_);
  } else {
    reference_.emplace(job, context, token_score(temperature));
  }
}

std::vector<at::Tensor> PolicyScorer::of_policy(const std::vector<data::Batch>& batches,
                                                Engine& engine) {
  engine.evaluate(
      batches, [] { return false; }, &policy_);
  return collector_.take();
}

std::vector<at::Tensor> PolicyScorer::of_reference(const std::vector<data::Batch>& batches,
                                                   Engine& engine) {
  if (reference_) return reference_->scores_of(batches);
  engine.evaluate(
      batches, [] { return false; }, &*base_);
  return collector_.take();
}

}  // namespace colossal::tune
