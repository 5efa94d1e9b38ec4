// What a run learns from its samples: how they become batches, what is lost on them, and what a
// step tells beside the loss. The training loop is the same for all tasks.
#pragma once

#include <cstdint>
#include <functional>
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

  // This replica's micro-batches of the steps after `steps_done`.
  virtual data::BatchLoader training_loader(int64_t steps_done) const = 0;
  virtual data::BatchLoader validation_loader() const = 0;
  virtual int64_t num_validation_steps() const = 0;

  // What the run's samples depend on, for a checkpoint, and its check on resuming: rank 0 warns of
  // what has changed. A run may go on with new data, so it is no error.
  virtual nlohmann::json state() const = 0;
  virtual void check_resumed(const nlohmann::json& state) const = 0;

  virtual HeadLoss loss() const { return cross_entropy_of_all; }
  // Names of all that the loss tells beside itself, and of those for the progress line.
  virtual std::vector<std::string> metrics() const { return {}; }
  virtual std::vector<std::string> shown_metrics() const { return {}; }

  // Called once, when the model that is trained has its weights. Collective.
  virtual void begin(models::LanguageModel&, Engine&) {}
  // Called with what a loader gave, before the engine gets it: fills what takes a pass of a model
  // to know, such as the log-probabilities of a reference. Collective.
  virtual void complete(std::vector<data::Batch>&, Engine&) {}
};

// Makes a rank's task; calls `preparing` now and then meanwhile, which may throw to end the run.
using MakeTask = std::function<std::unique_ptr<TrainingTask>(
    const Job& job, const ParallelContext& context, const std::function<void()>& preparing)>;

}  // namespace colossal
