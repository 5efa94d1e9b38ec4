// What a run learns: how samples become batches, the loss of a batch, and the metrics of a step.
// The training loop (trainer.h) is the same for all tasks. Each rank has a task of its own; a run
// calls the functions of all ranks' tasks in the same order.
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

  // Returns a loader of this replica's micro-batches, for the steps after the first `steps_done`.
  virtual data::BatchLoader training_loader(int64_t steps_done) const = 0;
  // Only if has_validation(): a loader for one evaluation, and the number of its steps.
  virtual data::BatchLoader validation_loader() const = 0;
  virtual int64_t num_validation_steps() const = 0;

  // Returns, for a checkpoint, everything that the run's samples depend on.
  virtual nlohmann::json state() const = 0;
  // Called when a run resumes. Compares `state`, that of the checkpoint, with state(); rank 0 logs
  // a warning for each difference. A run may resume with new data, so a difference is not an error.
  virtual void check_resumed(const nlohmann::json& state) const = 0;
  // Restores the task from the state of a checkpoint. Called on all ranks, after check_resumed().
  virtual void restore(const nlohmann::json&) {}

  virtual HeadLoss loss() const { return cross_entropy_of_all; }
  // Returns a loss for record_order(): it uses the head's weights in the same order as loss(), but
  // needs only the tokens and labels of a batch. Empty: the order is that of the cross-entropy,
  // followed, for a model with a value head, by that head.
  virtual HeadLoss loss_to_record() const { return {}; }
  // metrics() returns the names of all metrics of loss(). shown_metrics() returns the names of the
  // metrics that the progress line shows.
  virtual std::vector<std::string> metrics() const { return {}; }
  virtual std::vector<std::string> shown_metrics() const { return {}; }

  // Called once, when the trained model has its weights. Both arguments outlive the task's other
  // calls. Collective.
  virtual void begin(models::LanguageModel&, Engine&) {}
  // Work in another thread that reads the weights while the step's forward and backward passes run.
  // The step's update waits for its end.
  struct ConcurrentWork {
    std::string name = {};             // prefix of its metrics: NAME/seconds
    std::future<double> seconds = {};  // the work's duration, at its end; invalid: there is no work
  };
  // Called when a training step begins. Collective.
  virtual ConcurrentWork begin_step(Engine&) { return {}; }
  // Called with the micro-batches of a training or evaluation step before the engine receives them.
  // Fills in fields that need a forward pass of a model, such as the log-probabilities of a
  // reference model. Collective.
  virtual void complete(std::vector<data::Batch>&, Engine&) {}
};

// Makes a rank's task. Meanwhile it calls `preparing` repeatedly, which may throw to end the run.
// `job` and `context` outlive the task.
using MakeTask = std::function<std::unique_ptr<TrainingTask>(
    const Job& job, const ParallelContext& context, const std::function<void()>& preparing)>;

}  // namespace colossal
