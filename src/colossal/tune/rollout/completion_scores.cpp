#include "colossal/tune/rollout/completion_scores.h"

#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "colossal/data/text_batch.h"
#include "colossal/parallel/collectives.h"

namespace colossal::tune {

CompletionScores score_completions(models::Model& model, const nn::BlockState& state,
                                   const data::Batch& batch, const nn::StepContext& step,
                                   const ParallelContext& context) {
  const at::Tensor found =
      model.token_head().log_probabilities(state.output(), batch.at(data::kLabels), 1, step);
  const at::Tensor weights = batch.find(kLabelWeights);
  const at::Tensor weighted = weights.defined() ? found * weights.to(found.scalar_type()) : found;
  at::Tensor sums = at::stack({weighted.sum(1), found.sum(1)});
  if (context.strategy().sp > 1)
    sums = parallel::reduce_from_tensor_parallel(sums, context.group(Axis::sp));
  return {.log_probability = sums[0], .of_all_labels = sums[1]};
}

at::Tensor sum_of_rows(const at::Tensor& of_tokens, const ParallelContext& context) {
  const at::Tensor sums = of_tokens.sum(1);
  if (context.strategy().sp == 1) return sums;
  return parallel::reduce_from_tensor_parallel(sums, context.group(Axis::sp));
}

at::Tensor shared_sum_of_rows(const at::Tensor& of_tokens, const ParallelContext& context) {
  const at::Tensor sums = sum_of_rows(of_tokens, context);
  if (context.strategy().sp == 1) return sums;
  return parallel::copy_to_tensor_parallel(sums, context.group(Axis::sp));
}

at::Tensor whole_rows(const at::Tensor& of_tokens, const nn::StepContext& step,
                      const ParallelContext& context) {
  if (context.strategy().sp == 1) return of_tokens.detach();
  const at::Tensor all = at::zeros({of_tokens.size(0), step.tokens().whole_sequence},
                                   of_tokens.options().requires_grad(false));
  all.index_copy_(1, step.tokens().positions, of_tokens.detach());
  comm::all_reduce(all.view(-1), context.group(Axis::sp), comm::Reason::tensor);
  return all;
}

}  // namespace colossal::tune
