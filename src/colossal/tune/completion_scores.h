// Log-probabilities of whole completions, for any parallel layout.
#pragma once

#include <ATen/core/Tensor.h>

#include "colossal/booster/staged_model.h"
#include "colossal/mesh/parallel_context.h"

namespace colossal::tune {

// A field of batches, [rows, tokens]: the weight of each label's log-probability in the sum of its
// row. Without this field all weights are 1.
inline constexpr const char* kLabelWeights = "label_weights";

// Scores of a micro-batch's rows, in fp32 (fp64 for an fp64 model), differentiable, equal on all
// ranks that share the rows' tokens.
struct CompletionScores {
  at::Tensor log_probability;  // [rows]: sum of log-probabilities, each times its label's weight
  at::Tensor of_all_labels;    // [rows]: sum of log-probabilities with all weights 1
};

// x: the residual stream after the last block, [rows, tokens on this rank, hidden]. Law with sp >
// 1: an all-reduce of 2 numbers per row over sp, in the forward pass only.
CompletionScores score_completions(models::LanguageModel& model, const at::Tensor& x,
                                   const data::Batch& batch, const nn::StepContext& step,
                                   const ParallelContext& context);

// Returns row sums [rows] of per-token values [rows, tokens on this rank], over all ranks of sp,
// equal on all of them. The gradient flows to the tokens of this rank. For losses that every rank
// of sp computes from whole rows. Law: an all-reduce of one number per row over sp, in the forward
// pass only.
at::Tensor sum_of_rows(const at::Tensor& of_tokens, const ParallelContext& context);
// As sum_of_rows(), for losses that each rank of sp computes from its own tokens: the backward pass
// sums the gradient over sp as well. Law: as sum_of_rows(), and the same all-reduce in backward.
at::Tensor shared_sum_of_rows(const at::Tensor& of_tokens, const ParallelContext& context);
// Gathers per-token values of all ranks of sp: returns [rows, all tokens], without gradient. Law:
// an all-reduce of the result over sp.
at::Tensor whole_rows(const at::Tensor& of_tokens, const nn::StepContext& step,
                      const ParallelContext& context);

}  // namespace colossal::tune
