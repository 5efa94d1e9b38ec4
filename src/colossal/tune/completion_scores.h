// Log-probabilities of whole completions, at any layout.
#pragma once

#include <ATen/core/Tensor.h>

#include "colossal/booster/staged_model.h"
#include "colossal/mesh/parallel_context.h"

namespace colossal::tune {

// A field of batches, [rows, sequence]: the weight of each label's log-probability in the sum of
// its row. Without the field all weights are 1.
inline constexpr const char* kLabelWeights = "label_weights";

// Scores of a micro-batch's rows, in fp32 (fp64 in an fp64 model), differentiable. All ranks that
// share the rows' positions have the same.
struct CompletionScores {
  at::Tensor log_probability;  // [rows]: the sum over labels, each times its weight
  at::Tensor of_all_labels;    // [rows]: the sum over labels with all weights 1
};

// x: the residual stream after the last block. Ranks that share sequences send an all-reduce of 2
// numbers for each row over sp, in the forward pass only.
CompletionScores score_completions(models::LanguageModel& model, const at::Tensor& x,
                                   const data::Batch& batch, const nn::StepContext& step,
                                   const ParallelContext& context);

}  // namespace colossal::tune
