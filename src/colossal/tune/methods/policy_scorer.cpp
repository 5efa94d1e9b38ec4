#include "colossal/tune/methods/policy_scorer.h"

#include "colossal/data/text_batch.h"
#include "colossal/engine/state_shapes.h"
#include "colossal/tune/rollout/completion_scores.h"

namespace colossal::tune {
namespace {

ScoreCollector::Score token_score(double temperature, const ParallelContext& context) {
  return [temperature, &context](models::Model& model, const nn::BlockState& state,
                                 const data::Batch& batch, const nn::StepContext& step) {
    return whole_rows(token_log_probabilities(model, state, batch, step, temperature), step,
                      context);
  };
}

ScoreCollector::Score value_score(const ParallelContext& context) {
  return [&context](models::Model& model, const nn::BlockState& state, const data::Batch&,
                    const nn::StepContext& step) {
    return whole_rows(model.value_head().values(state.output(), step), step, context);
  };
}

// Returns a function that calls both in one pass, and returns the result of `second`.
HeadLoss joined(const HeadLoss& first, const HeadLoss& second) {
  return [first, second](models::Model& model, const nn::BlockState& state,
                         const data::Batch& batch, const nn::StepContext& step) {
    first(model, state, batch, step);
    return second(model, state, batch, step);
  };
}

}  // namespace

at::Tensor token_log_probabilities(models::Model& model, const nn::BlockState& state,
                                   const data::Batch& batch, const nn::StepContext& step,
                                   double temperature) {
  return model.token_head().log_probabilities(state.output(), batch.at(data::kLabels), temperature,
                                              step);
}

PolicyScorer::PolicyScorer(const Job& job, const ParallelContext& context, models::Model& model,
                           double temperature, bool with_reference)
    : collector_(token_score(temperature, context)), values_(value_score(context)) {
  const StagedModel alone = pipelined(model, model_source_of(job), context, collector_.head());
  policy_ = job.model.transformer.value_head ? pipelined(model, model_source_of(job), context,
                                                         joined(collector_.head(), values_.head()))
                                             : alone;
  if (with_reference) {
    reference_.emplace(job, context, model, token_score(temperature, context));
  }
}

std::vector<TokenScores> PolicyScorer::of_policy(const std::vector<data::Batch>& batches,
                                                 Engine& engine) {
  engine.evaluate(
      batches, [] { return false; }, &policy_);
  const std::vector<at::Tensor> found = collector_.take(), values = values_.take();
  std::vector<TokenScores> scores;
  for (size_t i = 0; i < found.size(); ++i) {
    scores.push_back({found[i], values.empty() ? at::Tensor() : values[i]});
  }
  return scores;
}

std::vector<at::Tensor> PolicyScorer::of_reference(const std::vector<data::Batch>& batches,
                                                   Engine& engine) {
  return reference_->scores_of(batches, engine);
}

}  // namespace colossal::tune
