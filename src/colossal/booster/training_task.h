// What a run learns: how samples become batches, the loss of a batch, and the metrics of a step.
// The training loop is the same for all tasks.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "colossal/booster/engine.h"
#include "colossal/booster/job.h"
#include "colossal/booster/staged_model.h"
#include "colossal/data/batch_loader.h"
#include "colossal/text/tokenizer.h"

namespace colossal {

class TrainingTask {
 public:
  virtual ~TrainingTask() = default;

  virtual const text::Tokenizer& tokenizer() const = 0;
  virtual bool has_validation() const = 0;

  // Returns this replica's micro-batches of the steps after `steps_done`.
  virtual data::BatchLoader training_loader(int64_t steps_done) const = 0;
  virtual data::BatchLoader validation_loader() const = 0;
  virtual int64_t num_validation_steps() const = 0;

  // state() returns, for a checkpoint, everything that the run's samples depend on. check_resumed()
  // is called when a run resumes: it compares the checkpoint's state with the present one, and rank
  // 0 logs a warning for each difference. A run may resume with new data, so a difference is not an
  // error.
  virtual nlohmann::json state() const = 0;
  virtual void check_resumed(const nlohmann::json& state) const = 0;
  // Restores the task from the state of a checkpoint. Called on all ranks.
  virtual void restore(const nlohmann::json&) {}

  virtual HeadLoss loss() const { return cross_entropy_of_all; }
  // Returns a loss that uses the head's weights in the same order as loss(), for batches that have
  // only tokens and labels. Empty: the default loss has that order, that is, cross-entropy, or the
  // values of a model with a value head.
  virtual HeadLoss loss_to_record() const { return {}; }
  // metrics(): names of all metrics of a step. shown_metrics(): names of those in the progress
  // line.
  virtual std::vector<std::string> metrics() const { return {}; }
  virtual std::vector<std::string> shown_metrics() const { return {}; }

  // Called once, when the trained model has its weights. Collective.
  virtual void begin(models::LanguageModel&, Engine&) {}
  // Work in another thread that reads the weights while the step's passes run. The update waits for
  // it.
  struct BesidePasses {
    std::string name = {};             // prefix of its metrics
    std::future<double> seconds = {};  // its duration; invalid: there is no work
  };
  // Called when a step begins. Collective.
  virtual BesidePasses begin_step(Engine&) { return {}; }
  // Called with the batches of a loader before the engine receives them. Fills in fields that need
  // a forward pass of a model, such as the log-probabilities of a reference model. Collective.
  virtual void complete(std::vector<data::Batch>&, Engine&) {}
};

// Makes a rank's task. Meanwhile calls `preparing` repeatedly; `preparing` may throw to end the
// run.
using MakeTask = std::function<std::unique_ptr<TrainingTask>(
    const Job& job, const ParallelContext& context, const std::function<void()>& preparing)>;

}  // namespace colossal
