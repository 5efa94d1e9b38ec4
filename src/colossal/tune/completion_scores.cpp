#include "colossal/tune/completion_scores.h"

#include <ATen/ops/stack.h>

#include "colossal/parallel/collectives.h"

namespace colossal::tune {

CompletionScores score_completions(models::LanguageModel& model, const at::Tensor& x,
                                   const data::Batch& batch, const nn::StepContext& step,
                                   const ParallelContext& context) {
  const at::Tensor found = model.head_log_probabilities(x, batch.labels, step);
  const auto weights = batch.fields.find(kLabelWeights);
  const at::Tensor weighted = weights == batch.fields.end()
                                  ? found
                                  : found * weights->second.values.to(found.scalar_type());
  at::Tensor sums = at::stack({weighted.sum(1), found.sum(1)});
  if (context.strategy().sp > 1)
    sums = parallel::reduce_from_tensor_parallel(sums, context.group(Axis::sp));
  return {.log_probability = sums[0], .of_all_labels = sums[1]};
}

}  // namespace colossal::tune
