// TrainingTask: the interface between the training loop (trainer.h) and what a run learns, such as
// next-token prediction, fine-tuning or an alignment method. A task defines how samples become
// batches, the loss of a batch, and the metrics of a step. Each rank has a task of its own. The
// training loop calls the functions of all ranks' tasks in the same order.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "colossal/data/batch_loader.h"
#include "colossal/engine/engine.h"
#include "colossal/engine/staged_model.h"
#include "colossal/job/job.h"
#include "colossal/report/run_report.h"
#include "colossal/training/saved_model.h"

namespace colossal {

class TrainingTask {
 public:
  virtual ~TrainingTask() = default;

  // Returns the files of the run's checkpoints besides their weights.
  virtual SavedModel saved_model() const = 0;
  // What a task that trains on texts knows about them; nullopt: it does not.
  struct Texts {
    const text::Tokenizer& tokenizer;
    text::TaughtText taught = {};  // what the run teaches about the form of texts
  };
  virtual std::optional<Texts> texts() const { return std::nullopt; }
  virtual bool has_validation() const = 0;

  // Returns a loader of this replica's micro-batches, for the training steps from number
  // steps_done + 1 to the last. Each next() returns the micro-batches of one step; none if
  // complete() makes them.
  virtual data::BatchLoader training_loader(int64_t steps_done) const = 0;
  // Called only if has_validation() is true. validation_loader() returns a loader of this replica's
  // micro-batches for one evaluation. num_validation_steps() returns how often the training loop
  // calls next() of this loader; it passes each result to Engine::evaluate().
  virtual data::BatchLoader validation_loader() const = 0;
  virtual int64_t num_validation_steps() const = 0;

  // Returns the tokens of a prompt of train.sample_prompts. Throws InternalError if the model
  // generates no text.
  virtual std::vector<int32_t> prompt_tokens(const std::string& prompt) const;

  // Returns everything on which the run's samples depend, to be stored in a checkpoint.
  virtual nlohmann::json state() const = 0;
  // Compares `state`, the state() in the checkpoint from which the run resumes, with state(). May
  // throw ConfigError if the checkpoint is of another tuning method or another tokenizer. Logs a
  // warning on rank 0 for each other difference that matters and is not in changed_settings()
  // (used_settings.h); such a difference is not an error, because a run may resume with new data.
  virtual void check_resumed(const nlohmann::json& state) const = 0;
  // Restores the task from the state() in a checkpoint. Called on all ranks of a resumed run, after
  // check_resumed() and before begin().
  virtual void restore(const nlohmann::json&) {}

  // Returns the function that computes the loss of a micro-batch from the output of the model's
  // last block.
  virtual HeadLoss loss() const { return cross_entropy_of_all; }
  // Returns the function that replaces loss() in a dry run before the training, which finds the
  // order in which a step uses the weights (record_order(), order_recording.h). The function must
  // use the head's weights in the same order as loss(), and no group of this task's context, which
  // does not run dry. The batch of the dry run has only inputs and labels. Empty: dry_loss()
  // (dry_loss.h), and after it the value head if the model has one.
  virtual HeadLoss loss_to_record() const { return {}; }
  // metrics() returns the names of all metrics that the function of loss() may return.
  // shown_metrics() returns the names of the metrics of a step that the progress line shows.
  virtual std::vector<std::string> metrics() const { return {}; }
  virtual std::vector<std::string> shown_metrics() const { return {}; }

  // Called after an evaluation. Returns, on rank 0, pictures that show what the model does.
  // Collective over all ranks.
  virtual std::vector<report::Picture> pictures(Engine&) { return {}; }

  // Called once, when the trained model has its weights, before the first step. Both arguments
  // remain valid during all later calls. Collective over all ranks.
  virtual void begin(models::Model&, Engine&) {}
  // Work in another thread that reads the weights while the forward and backward passes of a step
  // run. The training loop waits for the end of the work before it updates the weights.
  struct ConcurrentWork {
    // NAME in the metrics NAME/seconds, the duration of the work, and NAME/overlapped_seconds, how
    // much of it passed before the training loop had to wait.
    std::string name = {};
    // The duration in seconds; becomes ready when the work ends. Invalid: there is no work.
    std::future<double> seconds = {};
  };
  // Called when a training step begins. Collective over all ranks.
  virtual ConcurrentWork begin_step(Engine&) { return {}; }
  // Called with the micro-batches of a training or evaluation step before the engine receives them;
  // in a training step, after begin_step(). Adds what needs a forward pass of a model:
  // Batch::fields, such as the log-probabilities of a reference model, or sampled completions. A
  // task that samples all completions gets an empty list and makes the micro-batches here. Returns
  // metrics of what it did, equal on all ranks, which the step's metrics include. Collective over
  // all ranks.
  virtual std::map<std::string, double> complete(std::vector<data::Batch>&, Engine&) { return {}; }
};

// A function that makes a rank's task. While it works, it calls `preparing` repeatedly, which may
// throw to end the run. `job` and `context` outlive the task. Collective over all ranks.
using MakeTask = std::function<std::unique_ptr<TrainingTask>(
    const Job& job, const ParallelContext& context, const std::function<void()>& preparing)>;

}  // namespace colossal
