// Log-probabilities of whole completions, for losses that compare completions (DPO, KTO, ...), and
// sums over the tokens of rows. For any parallel layout: with sp > 1 (sequence parallelism), each
// rank has only a part of the tokens of each row.
#pragma once

#include <ATen/core/Tensor.h>

#include "colossal/engine/staged_model.h"
#include "colossal/mesh/parallel_context.h"

namespace colossal::tune {

// Name of an optional batch field, [rows, tokens] like the labels: the factor of each label's
// log-probability in CompletionScores::log_probability. If a batch lacks the field, all factors
// are 1.
inline constexpr const char* kLabelWeights = "label_weights";

// Scores of the rows of a micro-batch, in fp32 (fp64 for an fp64 model). A label is a token that is
// trained on, i.e. a label other than -100. The scores are equal on all ranks of
// sp. Differentiable; gradients are right only if each rank of sp computes the whole loss from the
// scores, as with sum_of_rows().
struct CompletionScores {
  // [rows]: sum over the labels of log-probability * factor (kLabelWeights).
  at::Tensor log_probability;
  // [rows]: sum over the labels of log-probability, without factors.
  at::Tensor of_all_labels;
};

// Returns the scores of the batch's rows. model, state, batch, step: the arguments of a HeadLoss
// (staged_model.h). So `batch` has only this rank's tokens of each row (local_batch()). Law: the
// bytes of model.token_head().log_probabilities(); with sp > 1 also an all-reduce of 2 numbers per
// row over sp, in the forward pass only.
CompletionScores score_completions(models::Model& model, const nn::BlockState& state,
                                   const data::Batch& batch, const nn::StepContext& step,
                                   const ParallelContext& context);

// Returns the sum of each whole row, [rows], equal on all ranks of sp. of_tokens: values per token,
// [rows, tokens on this rank]. Use this function if each rank of sp computes the whole loss from
// the sums. Each rank then has the whole gradient of each sum, so the backward pass needs no
// communication. Law with sp > 1: an all-reduce of one number per row over sp, in the forward pass
// only.
at::Tensor sum_of_rows(const at::Tensor& of_tokens, const ParallelContext& context);
// Returns the same sums as sum_of_rows(). Use this function if each rank of sp computes from the
// sums only the part of the loss that belongs to its own tokens. Each rank then has only a part of
// each sum's gradient, so the backward pass first adds up these parts over sp. Law with sp > 1: an
// all-reduce of one number per row over sp, in the forward pass and in the backward pass.
at::Tensor shared_sum_of_rows(const at::Tensor& of_tokens, const ParallelContext& context);
// Gathers values per token, [rows, tokens on this rank], from all ranks of sp. Returns [rows, all
// tokens] in the order of the sequence, without gradient. step: the context of the forward pass
// that computed the values. Law with sp > 1: an all-reduce of the result over sp.
at::Tensor whole_rows(const at::Tensor& of_tokens, const nn::StepContext& step,
                      const ParallelContext& context);

}  // namespace colossal::tune
