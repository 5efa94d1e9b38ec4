#include "colossal/engine/score_loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/log_softmax.h>

#include "colossal/data/score_fields.h"
#include "colossal/parallel/collectives.h"

namespace colossal {

at::Tensor scores_of_rows(models::Model& model, const nn::BlockState& state,
                          const data::Batch& batch, const nn::StepContext& step,
                          const ParallelContext& context) {
  const at::Tensor scores = model.score_head().scores(state.output(), step);
  const at::ScalarType wide = scores.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor pooling = batch.find(data::kPooling);
  const at::Tensor pooled =
      pooling.defined() ? scores.to(wide) * pooling.to(wide).unsqueeze(-1) : scores.to(wide);
  const at::Tensor of_rows = pooled.sum(1);
  if (context.strategy().sp == 1) return of_rows;
  return parallel::reduce_from_tensor_parallel(of_rows, context.group(Axis::sp));
}

at::Tensor label_loss(models::Problem problem, const at::Tensor& scores,
                      const at::Tensor& targets) {
  const at::Tensor wanted = targets.to(scores.device());
  switch (problem) {
    case models::Problem::single_label:
      if (wanted.size(-1) > 1) {
        return -(wanted.to(scores.scalar_type()) * at::log_softmax(scores, -1)).sum(-1);
      }
      return -at::log_softmax(scores, -1).gather(-1, wanted.to(at::kLong)).squeeze(-1);
    case models::Problem::multi_label: {
      const at::Tensor of_scores = wanted.to(scores.scalar_type());
      // -t log s(x) - (1 - t) log s(-x)
      return -(of_scores * at::log_sigmoid(scores) + (1 - of_scores) * at::log_sigmoid(-scores))
                  .mean(-1);
    }
    case models::Problem::regression:
      break;
  }
  return (scores - wanted.to(scores.scalar_type())).square().mean(-1);
}

at::Tensor label_accuracy(models::Problem problem, const at::Tensor& scores,
                          const at::Tensor& targets) {
  const at::Tensor given = scores.detach(), wanted = targets.to(scores.device());
  switch (problem) {
    case models::Problem::single_label:
      return given.argmax(-1)
          .eq(wanted.size(-1) > 1 ? wanted.argmax(-1) : wanted.squeeze(-1).to(at::kLong))
          .to(at::kDouble);
    case models::Problem::multi_label:
      return given.gt(0).eq(wanted.gt(0.5)).to(at::kDouble).mean(-1);
    case models::Problem::regression:
      break;
  }
  return (given - wanted.to(given.scalar_type())).abs().to(at::kDouble).mean(-1);
}

const char* score_metric(models::Problem problem) {
  return problem == models::Problem::regression ? "absolute_error" : "accuracy";
}

HeadLoss score_loss(models::Problem problem, const ParallelContext& context) {
  return [problem, &context](models::Model& model, const nn::BlockState& state,
                             const data::Batch& batch, const nn::StepContext& step) {
    const at::Tensor scores = scores_of_rows(model, state, batch, step, context);
    const at::Tensor& targets = batch.at(data::kTargets);
    const at::Tensor right = label_accuracy(problem, scores, targets);
    return LossSum{
        .sum = label_loss(problem, scores, targets).sum(),
        .count = scores.size(0),
        .copies = context.strategy().sp,
        .metrics = {{score_metric(problem),
                     {.sum = right.sum(), .count = static_cast<double>(right.numel())}}}};
  };
}

}  // namespace colossal
