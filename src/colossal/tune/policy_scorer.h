// Computes log-probabilities of completion tokens by the current model and by the reference, which
// is the model at the start of the run.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "colossal/tune/reference.h"

namespace colossal::tune {

// Returns the log-probability of each label, [rows, tokens on this rank], 0 where there is no
// label; differentiable. x: the residual stream after the last block. temperature: divides the
// logits.
at::Tensor token_log_probabilities(models::LanguageModel& model, const at::Tensor& x,
                                   const data::Batch& batch, const nn::StepContext& step,
                                   double temperature);

// Per-token scores of a batch, [rows, tokens] each.
struct TokenScores {
  at::Tensor log_probabilities;
  at::Tensor values;  // undefined: no value head
};

class PolicyScorer {
 public:
  // with_reference: keeps a reference: the model with the adapter disabled if the run trains a new
  // adapter, else a frozen copy of the model. Collective.
  PolicyScorer(const Job& job, const ParallelContext& context, models::LanguageModel& model,
               double temperature, bool with_reference);

  // Return the scores of each batch. Collective.
  std::vector<TokenScores> of_policy(const std::vector<data::Batch>& batches, Engine& engine);
  std::vector<at::Tensor> of_reference(const std::vector<data::Batch>& batches, Engine& engine);

 private:
  ScoreCollector collector_, values_;
  StagedModel policy_;
  std::optional<Reference> reference_;
};

}  // namespace colossal::tune
