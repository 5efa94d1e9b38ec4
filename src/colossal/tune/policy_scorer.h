// Computes log-probabilities of tokens by the model in training and by the reference (reference.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "colossal/tune/reference.h"

namespace colossal::tune {

// Returns the log-probability of each label, [rows, tokens on this rank], 0 where there is no
// label; differentiable. x: the residual stream after the last block, [rows, tokens on this rank,
// hidden]. temperature: divides the logits.
at::Tensor token_log_probabilities(models::LanguageModel& model, const at::Tensor& x,
                                   const data::Batch& batch, const nn::StepContext& step,
                                   double temperature);

// Per-token scores of a batch, [rows, all tokens] each, also with sp > 1; without gradient.
struct TokenScores {
  at::Tensor log_probabilities;
  at::Tensor values;  // undefined: no value head
};

class PolicyScorer {
 public:
  // model: the model in training. with_reference: also scores by a Reference, which may be a frozen
  // copy of the model. temperature: see token_log_probabilities(). `context` must outlive this.
  // Collective.
  PolicyScorer(const Job& job, const ParallelContext& context, models::LanguageModel& model,
               double temperature, bool with_reference);

  // Return the scores of each batch that has rows; empty on ranks without the last pipeline stage.
  // engine: the engine of the model in training. of_reference(): only log-probabilities; needs
  // with_reference. Collective.
  std::vector<TokenScores> of_policy(const std::vector<data::Batch>& batches, Engine& engine);
  std::vector<at::Tensor> of_reference(const std::vector<data::Batch>& batches, Engine& engine);

 private:
  ScoreCollector collector_, values_;
  StagedModel policy_;
  std::optional<Reference> reference_;
};

}  // namespace colossal::tune
