// The reference model of alignment methods: the model as it was at the start of the run. If the run
// trains a new adapter, that is the model in training with the adapter disabled; else a frozen
// copy.
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

// Collects scores of completions from forward passes of a model.
class ScoreCollector {
 public:
  // Returns the scores of a micro-batch's rows. x: the residual stream after the last block.
  using Score = std::function<at::Tensor(models::LanguageModel& model, const at::Tensor& x,
                                         const data::Batch& batch, const nn::StepContext& step)>;

  // Scores are log-probabilities of whole completions, [rows] (completion_scores.h).
  explicit ScoreCollector(const ParallelContext& context);
  explicit ScoreCollector(Score score) : score_(std::move(score)) {}

  // Returns a head that scores each micro-batch and keeps the scores in this; its loss is empty.
  // This must outlive the head and not be moved meanwhile.
  HeadLoss head();
  // Moves the collected scores into the field `name` of those batches that have rows, and clears
  // them. Only ranks of the last pipeline stage have scores; on others, does nothing.
  void move_to(std::vector<data::Batch>& batches, const char* name);
  // Returns the collected scores, one tensor per batch that had rows, and clears them.
  std::vector<at::Tensor> take() { return std::exchange(found_, {}); }

 private:
  Score score_;
  std::vector<at::Tensor> found_;
};

class Reference {
 public:
  static constexpr const char* kScores = "reference_scores";  // field set by score(), [rows]

  // Whether the reference is the model in training with the adapter disabled, instead of a copy.
  static bool is_base(const Job& job);

  // model: the model in training. Without `score`, scores are log-probabilities of whole
  // completions. `context` and `model` must outlive this. Collective.
  Reference(const Job& job, const ParallelContext& context, models::LanguageModel& model);
  Reference(const Job& job, const ParallelContext& context, models::LanguageModel& model,
            ScoreCollector::Score score);
  // Sets the field kScores of the batches that have rows, on ranks of the last pipeline stage.
  // engine: the engine of the model in training. Collective.
  void score(std::vector<data::Batch>& batches, Engine& engine);
  // Returns the scores of the batches that have rows; empty on ranks without the last pipeline
  // stage. Collective.
  std::vector<at::Tensor> scores_of(const std::vector<data::Batch>& batches, Engine& engine);

 private:
  Reference(const Job& job, const ParallelContext& context, models::LanguageModel& model,
            ScoreCollector collector);
  void run(const std::vector<data::Batch>& batches, Engine& engine);

  ScoreCollector collector_;
  StagedModel base_;  // the model in training with its adapter disabled; unused if copy_ is set
  std::optional<FrozenModel> copy_;  // frozen copy in the same layout and tiers
};

}  // namespace colossal::tune
