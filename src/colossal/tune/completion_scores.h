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

// Of numbers of tokens [rows, tokens here], whose rows ranks of sp share: the sums of whole rows,
// [rows], the same on all of them; the gradient passes to the tokens here. For a loss that each of
// these ranks makes of whole rows. Law: an all-reduce of a number for each row over sp, in the
// forward pass only.
at::Tensor sum_of_rows(const at::Tensor& of_tokens, const ParallelContext& context);
// The same for a loss that each rank makes of its own tokens: the gradient is summed over sp too.
at::Tensor shared_sum_of_rows(const at::Tensor& of_tokens, const ParallelContext& context);
// All tokens of the rows, [rows, tokens], of those here, without a gradient. Law: an all-reduce of
// them all over sp.
at::Tensor whole_rows(const at::Tensor& of_tokens, const nn::StepContext& step,
                      const ParallelContext& context);

}  // namespace colossal::tune
