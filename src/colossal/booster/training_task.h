// What a run learns: how samples become batches, the loss on them, and the metrics of a step. The
// training loop is the same for all tasks.
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

  // This replica's micro-batches of the steps after `steps_done`.
  virtual data::BatchLoader training_loader(int64_t steps_done) const = 0;
  virtual data::BatchLoader validation_loader() const = 0;
  virtual int64_t num_validation_steps() const = 0;

  // state() returns what the run's samples depend on, for a checkpoint. check_resumed() compares it
  // when a run goes on, and rank 0 warns of what has changed. A run may go on with new data, so a
  // change is no error.
  virtual nlohmann::json state() const = 0;
  virtual void check_resumed(const nlohmann::json& state) const = 0;
  // Goes on from such a state, on all ranks.
  virtual void restore(const nlohmann::json&) {}

  virtual HeadLoss loss() const { return cross_entropy_of_all; }
  // What reads the head's weights in the order in which loss() does, of batches that have tokens
  // and labels only. Empty: cross-entropies, and values of a model that has a head for them.
  virtual HeadLoss loss_to_record() const { return {}; }
  // The names of all metrics of a step, and of those in the progress line.
  virtual std::vector<std::string> metrics() const { return {}; }
  virtual std::vector<std::string> shown_metrics() const { return {}; }

  // Called once, when the model that is trained has its weights. Collective.
  virtual void begin(models::LanguageModel&, Engine&) {}
  // Work that goes on beside a step's passes, in another thread, and reads the weights. The update
  // waits for it.
  struct BesidePasses {
    std::string name = {};             // in metrics
    std::future<double> seconds = {};  // that it has taken; invalid: there is no work
  };
  // Called when a step begins. Collective.
  virtual BesidePasses begin_step(Engine&) { return {}; }
  // Called with a loader's batches before the engine gets them. Fills in fields that need a forward
  // pass of a model, such as the log-probabilities of a reference. Collective.
  virtual void complete(std::vector<data::Batch>&, Engine&) {}
};

// Makes a rank's task; calls `preparing` now and then meanwhile, which may throw to end the run.
using MakeTask = std::function<std::unique_ptr<TrainingTask>(
    const Job& job, const ParallelContext& context, const std::function<void()>& preparing)>;

}  // namespace colossal
