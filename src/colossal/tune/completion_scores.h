// Log-probabilities of whole completions, at any layout.
#pragma once

#include <ATen/core/Tensor.h>

#include "colossal/booster/staged_model.h"
#include "colossal/mesh/parallel_context.h"

namespace colossal::tune {

// The field of a batch that says how much each label's log-probability counts for its row, [rows,
// sequence]; without it all labels that are not ignored count alike.
inline constexpr const char* kLabelWeights = "label_weights";

// Of the rows of a micro-batch, in fp32 (fp64 for fp64), differentiable; the same on all ranks that
// share the rows' positions.
struct CompletionScores {
  at::Tensor log_probability;  // [rows]: the sum over labels, each times its weight
  at::Tensor of_all_labels;    // [rows]: the sum over labels, whatever their weights
};

// x: the residual stream after the last block. Law, where ranks share sequences: an all-reduce of
// 2 numbers a row over sp, forward only.
CompletionScores score_completions(models::LanguageModel& model, const at::Tensor& x,
                                   const data::Batch& batch, const nn::StepContext& step,
                                   const ParallelContext& context);

}  // namespace colossal::tune
