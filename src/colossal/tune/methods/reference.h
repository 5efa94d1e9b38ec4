// The reference model of alignment methods (DPO, KTO, GRPO with a KL penalty, ...): the model as it
// was at the start of the run. The reference is the model in training with the adapter disabled if
// the run trains only a newly initialized adapter, without PiSSA (which changes weights of the
// model itself). Otherwise it is a frozen copy.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "colossal/engine/engine.h"
#include "colossal/engine/frozen_model.h"
#include "colossal/engine/staged_model.h"

namespace colossal::tune {

// Collects scores (one tensor per micro-batch) from forward passes of a model, in place of a loss.
// To use it, run a model with head(), then call move_to() or take().
class ScoreCollector {
 public:
  // A function that returns the scores of a micro-batch's rows, in any shape. state: after the
  // last block.
  using Score = std::function<at::Tensor(models::Model& model, const nn::BlockState& state,
                                         const data::Batch& batch, const nn::StepContext& step)>;

  // Collects log-probabilities of whole completions, [rows] (CompletionScores::log_probability).
  // `context` must outlive this object.
  explicit ScoreCollector(const ParallelContext& context);
  // Collects what `score` returns.
  explicit ScoreCollector(Score score) : score_(std::move(score)) {}

  // Returns a function for the last stage of a model. It scores each micro-batch, stores the scores
  // in this object, and returns an empty LossSum. This object must outlive the function and must
  // not be moved while the function exists.
  HeadLoss head();
  // Sets the field `name` of each batch that has rows to the scores of that batch, and clears the
  // scores. batches: those that the model ran, in order. Does nothing on ranks without the last
  // pipeline stage, which have no scores.
  void move_to(std::vector<data::Batch>& batches, const char* name);
  // Returns the scores, one tensor for each batch that had rows, in order, and clears them; empty
  // on ranks without the last pipeline stage.
  std::vector<at::Tensor> take() { return std::exchange(found_, {}); }

 private:
  Score score_;
  std::vector<at::Tensor> found_;
};

class Reference {
 public:
  // Name of the batch field that score() sets.
  static constexpr const char* kScores = "reference_scores";

  // Whether the reference of this job is the model in training with its adapter disabled, so that
  // no copy is needed.
  static bool is_base(const Job& job);

  // model: the model in training. score: computes the scores; without it, the scores are
  // log-probabilities of whole completions, [rows]. `context` and `model` must outlive this object,
  // which must not be moved. Collective.
  Reference(const Job& job, const ParallelContext& context, models::Model& model);
  Reference(const Job& job, const ParallelContext& context, models::Model& model,
            ScoreCollector::Score score);
  // Runs the reference on this replica's batches and sets their field kScores, on ranks of the last
  // pipeline stage. engine: the engine of the model in training. Collective.
  void score(std::vector<data::Batch>& batches, Engine& engine);
  // Runs the reference on this replica's batches and returns the scores, one tensor for each batch
  // that has rows; empty on ranks without the last pipeline stage. Collective.
  std::vector<at::Tensor> scores_of(const std::vector<data::Batch>& batches, Engine& engine);

 private:
  Reference(const Job& job, const ParallelContext& context, models::Model& model,
            ScoreCollector collector);
  void run(const std::vector<data::Batch>& batches, Engine& engine);

  ScoreCollector collector_;
  StagedModel base_;  // the model in training with its adapter disabled; unused if copy_ is set
  std::optional<FrozenModel> copy_;  // the frozen copy; nullopt if is_base()
};

}  // namespace colossal::tune
