// Carries out a pipeline schedule at one rank: forward and backward passes of its stages over the
// micro-batches of a step, and the messages between them, which travel while it computes.
//
// One rank of one stage is a pipeline too: its schedule is each micro-batch forward and backward.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "colossal/booster/control.h"
#include "colossal/booster/staged_model.h"
#include "colossal/booster/timed_action.h"
#include "colossal/data/batch.h"
#include "colossal/memory/activations.h"
#include "colossal/memory/chunk_engine.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/parallel/pipeline/costs.h"
#include "colossal/parallel/pipeline/schedule.h"

namespace colossal {

class PipelineExecutor {
 public:
  struct Options {
    // false for a foreign module, whose weights are fetched as operators receive them.
    bool uses_handles = true;
    parallel::pipeline::Costs stage_costs;  // see EngineConfig
    std::vector<std::string> metrics;       // the same
  };
  // All must outlive it.
  PipelineExecutor(const ParallelContext& context, const StagedModel& model,
                   memory::ChunkEngine& chunks, memory::Activations& activations,
                   const Options& options);

  // The key of the random numbers of a step.
  struct Step {
    int64_t steps_done = 0;
    uint64_t seed = 0;
  };
  // Puts the gradients of upstream * (sum of the losses) into the chunks, and adds losses and
  // counts of the last stage to `control`. Takes at least one micro-batch, equally many on all
  // ranks.
  void train(std::span<const data::Batch> micro_batches, const Step& step, double upstream,
             ControlMessage& control);
  // Adds losses and counts, without gradients. Micro-batches may have no sequences.
  void evaluate(const StagedModel& model, std::span<const data::Batch> micro_batches,
                const Step& step, ControlMessage& control);

  using Schedule = parallel::pipeline::Schedule;
  const Schedule& training_schedule(size_t num_micro_batches);
  // From now on train() appends to `times` when it carries out each action; null: it does not.
  void record(std::vector<TimedAction>* times) { times_ = times; }
  // Called after each action of train(), messages too.
  using AfterAction = std::function<void(const parallel::pipeline::Action&)>;
  void after_each_action(AfterAction call) { after_action_ = std::move(call); }

 private:
  class Run;

  const Schedule& evaluation_schedule(size_t num_micro_batches);

  const ParallelContext& context_;
  const StagedModel& model_;
  memory::ChunkEngine& chunks_;
  memory::Activations& activations_;
  Options options_;
  std::map<size_t, Schedule> training_, evaluation_;  // by number of micro-batches
  std::vector<TimedAction>* times_ = nullptr;
  AfterAction after_action_;
};

}  // namespace colossal
