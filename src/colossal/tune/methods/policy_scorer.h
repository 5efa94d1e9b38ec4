// Computes log-probabilities and values of the tokens of sampled completions, by forward passes of
// the model in training and of the reference model (reference.h). Used by OnlineTask before the
// first update on a generation (generation.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "colossal/tune/methods/reference.h"

namespace colossal::tune {

// Returns the log-probability of each label, in the shape of the labels, differentiable; 0 where
// the label is -100 (ignored). state: after the last block. batch: the result of local_batch()
// (data/batch.h), so its labels are those of the tokens on this rank of sp. step: the context of
// the forward pass that computed `state`. temperature: divides the logits. All ranks of tp must
// call this together; they get the same result.
at::Tensor token_log_probabilities(models::Model& model, const nn::BlockState& state,
                                   const data::Batch& batch, const nn::StepContext& step,
                                   double temperature);

// Scores of the tokens of a batch. Both tensors are [rows, all tokens of the row], also with sp >
// 1, without gradient.
struct TokenScores {
  at::Tensor log_probabilities;  // of each label; 0 where the label is -100
  at::Tensor values;             // output of the value head; undefined if the model has none
};

class PolicyScorer {
 public:
  // model: the model in training. temperature: divides the logits. with_reference: whether
  // of_reference() will be called; this makes a Reference, which may hold a frozen copy of the
  // model. `context` and `model` must outlive this object, which must not be moved. Collective.
  PolicyScorer(const Job& job, const ParallelContext& context, models::Model& model,
               double temperature, bool with_reference);

  // Returns the scores by the model in training, one element for each batch that has rows; empty on
  // ranks without the last pipeline stage. batches: this replica's. engine: the engine of the model
  // in training. Collective.
  std::vector<TokenScores> of_policy(const std::vector<data::Batch>& batches, Engine& engine);
  // Returns only the log-probabilities, by the reference model, in the same form. engine: as for
  // of_policy(). If the reference is the model in training with its adapter disabled, `engine` runs
  // it; if the reference is a frozen copy, `engine` is not used. Requires with_reference.
  // Collective.
  std::vector<at::Tensor> of_reference(const std::vector<data::Batch>& batches, Engine& engine);

 private:
  ScoreCollector collector_, values_;  // of log-probabilities, and of values
  StagedModel policy_;                 // the model in training, with a head that collects scores
  std::optional<Reference> reference_;
};

}  // namespace colossal::tune
