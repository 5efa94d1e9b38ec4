// Log-probabilities of the tokens of completions, by the model that is trained as it is now, and by
// the reference: the model as the run began.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "colossal/tune/reference.h"

namespace colossal::tune {

// [rows, tokens], 0 where no label is; differentiable. temperature: divides logits.
at::Tensor token_log_probabilities(models::LanguageModel& model, const at::Tensor& x,
                                   const data::Batch& batch, const nn::StepContext& step,
                                   double temperature);

// Of the labels of a batch, each [rows, tokens].
struct TokenScores {
  at::Tensor log_probabilities;
  at::Tensor values;  // of a model that has a head for them; else undefined
};

class PolicyScorer {
 public:
  // with_reference: else there is none. The reference of a new adapter is its base, with the
  // adapter off; else a frozen copy of the model. Collective.
  PolicyScorer(const Job& job, const ParallelContext& context, models::LanguageModel& model,
               double temperature, bool with_reference);

  // Of the batches. Collective.
  std::vector<TokenScores> of_policy(const std::vector<data::Batch>& batches, Engine& engine);
  std::vector<at::Tensor> of_reference(const std::vector<data::Batch>& batches, Engine& engine);

 private:
  ScoreCollector collector_, values_;
  StagedModel policy_;
  std::optional<StagedModel> base_;  // the policy with its adapter off
  std::optional<Reference> reference_;
};

}  // namespace colossal::tune
