// The reference of alignment: the model as it was when the run began, or that without its adapter
// where the run began a new one.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "colossal/booster/engine.h"
#include "colossal/booster/frozen_model.h"
#include "colossal/booster/staged_model.h"

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

class Reference {
 public:
  static constexpr const char* kScores = "reference_scores";  // the field that it fills, [rows]

  // Whether it is the model in training with the adapter off, and no copy.
  static bool is_base(const Job& job);

  // model: the one in training. Without `score`, scores are log-probabilities of completions.
  Reference(const Job& job, const ParallelContext& context, models::LanguageModel& model);
  Reference(const Job& job, const ParallelContext& context, models::LanguageModel& model,
            ScoreCollector::Score score);
  // Fills field kScores of the batches. Collective. engine: of the model in training.
  void score(std::vector<data::Batch>& batches, Engine& engine);
  // Returns the scores of the batches that have rows, on ranks of the last stage. Collective.
  std::vector<at::Tensor> scores_of(const std::vector<data::Batch>& batches, Engine& engine);

 private:
  Reference(const Job& job, const ParallelContext& context, models::LanguageModel& model,
            ScoreCollector collector);
  void run(const std::vector<data::Batch>& batches, Engine& engine);

  ScoreCollector collector_;
  StagedModel base_;                 // of the model in training, where there is no copy
  std::optional<FrozenModel> copy_;  // in the same layout and tiers
};

}  // namespace colossal::tune
