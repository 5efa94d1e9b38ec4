// The reference of alignment: the model as it was when the run began.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "colossal/booster/frozen_model.h"

namespace colossal::tune {

// Collects the scores of completions from forward passes of a model.
class ScoreCollector {
 public:
  // Computes the scores of a micro-batch's rows. x: the residual stream after the last block.
  using Score = std::function<at::Tensor(models::LanguageModel& model, const at::Tensor& x,
                                         const data::Batch& batch, const nn::StepContext& step)>;

  // Scores are log-probabilities of whole completions, [rows].
  explicit ScoreCollector(const ParallelContext& context);
  explicit ScoreCollector(Score score) : score_(std::move(score)) {}

  HeadLoss head();
  // Moves the collected scores into field `name` of the batches that have rows. Only ranks of the
  // last pipeline stage collect any.
  void move_to(std::vector<data::Batch>& batches, const char* name);
  // Returns the scores of each batch that had rows, and forgets them.
  std::vector<at::Tensor> take() { return std::exchange(found_, {}); }

 private:
  Score score_;
  std::vector<at::Tensor> found_;
};

// A frozen copy of the model at the beginning of the run, in the same layout and tiers.
class Reference {
 public:
  static constexpr const char* kScores = "reference_scores";  // the field that it fills, [rows]

  Reference(const Job& job, const ParallelContext& context);
  Reference(const Job& job, const ParallelContext& context, ScoreCollector::Score score);
  // Fills field kScores of the batches. Collective.
  void score(std::vector<data::Batch>& batches);
  // Returns the scores of the batches that have rows, on ranks of the last stage. Collective.
  std::vector<at::Tensor> scores_of(const std::vector<data::Batch>& batches);

 private:
  ScoreCollector collector_;
  FrozenModel model_;
};

}  // namespace colossal::tune
