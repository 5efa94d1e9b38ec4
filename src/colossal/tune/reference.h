// The model from which an aligned one shall not stray: what it was when the run began.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "colossal/booster/frozen_model.h"

namespace colossal::tune {

// Scores of completions by a model that is not trained here, gathered as they come.
class ScoreCollector {
 public:
  // What is asked of a model about the rows of a micro-batch.
  using Score = std::function<at::Tensor(models::LanguageModel& model, const at::Tensor& x,
                                         const data::Batch& batch, const nn::StepContext& step)>;

  // The log-probabilities of whole completions, [rows].
  explicit ScoreCollector(const ParallelContext& context);
  explicit ScoreCollector(Score score) : score_(std::move(score)) {}

  HeadLoss head();
  // As the field `name` of the batches that have rows, at the ranks of the last stage; the others
  // have no use for it.
  void move_to(std::vector<data::Batch>& batches, const char* name);
  // Of each batch that had rows.
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
  // Fills the field of the batches. Collective.
  void score(std::vector<data::Batch>& batches);
  // Of the batches that have rows, at the ranks of the last stage. Collective.
  std::vector<at::Tensor> scores_of(const std::vector<data::Batch>& batches);

 private:
  ScoreCollector collector_;
  FrozenModel model_;
};

}  // namespace colossal::tune
