// Runs a pipeline schedule on one rank: the forward and backward passes of the rank's stages over
// the micro-batches of a step, and the messages to and from the stages of other ranks. Messages are
// sent and received while the rank computes. Engine and FrozenModel use this for every model: a
// model without pipeline parallelism is a pipeline of one stage.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "colossal/data/batch.h"
#include "colossal/engine/control.h"
#include "colossal/engine/staged_model.h"
#include "colossal/engine/timed_action.h"
#include "colossal/memory/activations.h"
#include "colossal/memory/chunk_engine.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/parallel/pipeline/costs.h"
#include "colossal/parallel/pipeline/schedule.h"

namespace colossal {

class PipelineExecutor {
 public:
  // Taken from EngineConfig.
  struct Options {
    // Whether the model reads weights through parameter handles. false, for a user's own torch
    // module: a sharded or offloaded weight is fetched when an operator receives it.
    bool uses_handles = true;
    // Costs of the stages, for schedules that depend on costs. Empty: all stages cost the same.
    parallel::pipeline::Costs stage_costs;
    std::vector<std::string> metrics;  // names of all metrics that the loss may return
  };
  // chunks: the weights of the model. activations: decides which saved activations are kept,
  // offloaded or recomputed. All arguments except `options` must outlive this.
  PipelineExecutor(const ParallelContext& context, const StagedModel& model,
                   memory::ChunkEngine& chunks, memory::Activations& activations,
                   const Options& options);

  // The numbers that select the random numbers of a step: StepContext::step and StepContext::seed.
  struct Step {
    int64_t steps_done = 0;
    uint64_t seed = 0;
  };
  // Runs the forward and backward passes of a step over the micro-batches of this rank's replica.
  // All ranks of the replica pass the same, whole micro-batches; each takes the positions that it
  // holds. Accumulates the gradients of upstream * (sum of the losses of all micro-batches) in the
  // chunks. On ranks of the last stage, adds this rank's losses, counts and metrics to `control`;
  // on every rank of a model with experts, adds the counts of this rank's routers
  // (ControlMessage::routers). The caller sums `control` over ranks (control.h). The number of
  // micro-batches must be at least 1, and the same on all ranks. Collective.
  void train(std::span<const data::Batch> micro_batches, const Step& step, double upstream,
             ControlMessage& control);
  // Runs forward passes of `model`, without gradients. model: the model of the constructor, or
  // other stages over the same weights, for example with another head. As in train(), all ranks of
  // the replica pass the same, whole micro-batches; here, some may have no sequences. The number of
  // micro-batches must be the same on all ranks. On ranks of the last stage, adds losses, counts
  // and metrics to `control`; leaves ControlMessage::routers unchanged. Collective.
  void evaluate(const StagedModel& model, std::span<const data::Batch> micro_batches,
                const Step& step, ControlMessage& control);

  using Schedule = parallel::pipeline::Schedule;
  // Returns the schedule of train() for `num_micro_batches` micro-batches. Valid as long as this.
  const Schedule& training_schedule(size_t num_micro_batches);
  // Makes train() append a TimedAction to `times` for each computation and each wait for a message.
  // null ends the recording.
  void record(std::vector<TimedAction>* times) { times_ = times; }
  // Makes train() call `call` after each action of its schedule, sends and receives included. An
  // empty function ends this.
  using AfterAction = std::function<void(const parallel::pipeline::Action&)>;
  void after_each_action(AfterAction call) { after_action_ = std::move(call); }

 private:
  class Run;  // one call of train() or evaluate()

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
