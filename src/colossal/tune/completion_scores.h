// Log-probabilities of whole completions, for any parallel layout.
#pragma once

#include <ATen/core/Tensor.h>

#include "colossal/booster/staged_model.h"
#include "colossal/mesh/parallel_context.h"

namespace colossal::tune {

// Name of an optional batch field, [rows, tokens]: the weight of each label's log-probability in
// the sum over its row. Without this field all weights are 1.
inline constexpr const char* kLabelWeights = "label_weights";

// Scores of a micro-batch's rows, in fp32 (fp64 for an fp64 model), differentiable. Equal on all
// ranks of sp, each of which has a part of every row's tokens.
struct CompletionScores {
  at::Tensor log_probability;  // [rows]: sum of log-probabilities times the labels' weights
  at::Tensor of_all_labels;    // [rows]: sum of log-probabilities with all weights 1
};

// x: the residual stream after the last block, [rows, tokens on this rank, hidden]. Law with sp >
// 1: an all-reduce of 2 numbers per row over sp, in the forward pass only.
CompletionScores score_completions(models::LanguageModel& model, const at::Tensor& x,
                                   const data::Batch& batch, const nn::StepContext& step,
                                   const ParallelContext& context);

// Returns the sums [rows] of per-token values [rows, tokens on this rank] over the whole rows,
// equal on all ranks of sp. Use it if every rank of sp computes the whole loss from the sums: each
// then has the whole gradient of a sum, which the backward pass passes on to this rank's tokens
// without communication. Law: an all-reduce of one number per row over sp, in the forward pass
// only.
at::Tensor sum_of_rows(const at::Tensor& of_tokens, const ParallelContext& context);
// As sum_of_rows(), but for use if each rank of sp computes only its own tokens' part of the loss
// from the sums: each then has only a part of a sum's gradient, so the backward pass first adds up
// these parts over sp. Law: as sum_of_rows(), and an equal all-reduce in backward.
at::Tensor shared_sum_of_rows(const at::Tensor& of_tokens, const ParallelContext& context);
// Gathers per-token values [rows, tokens on this rank] of all ranks of sp: returns [rows, all
// tokens] in the order of the sequence, without gradient. Law: an all-reduce of the result over sp.
at::Tensor whole_rows(const at::Tensor& of_tokens, const nn::StepContext& step,
                      const ParallelContext& context);

}  // namespace colossal::tune
