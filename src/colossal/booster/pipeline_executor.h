// Runs a pipeline schedule on one rank: the forward and backward passes of its stages over the
// micro-batches of a step, and the messages between stages, which overlap with computation.
//
// A single rank with a single stage is a pipeline too: its schedule is a forward and a backward
// pass for each micro-batch.
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
    // As EngineConfig::uses_parameter_handles. false: weights are fetched when operators receive
    // them.
    bool uses_handles = true;
    parallel::pipeline::Costs stage_costs;  // as EngineConfig::stage_costs
    std::vector<std::string> metrics;       // as EngineConfig::metrics
  };
  // All arguments except `options` must outlive this.
  PipelineExecutor(const ParallelContext& context, const StagedModel& model,
                   memory::ChunkEngine& chunks, memory::Activations& activations,
                   const Options& options);

  // Key of the random numbers of a step (see StepContext).
  struct Step {
    int64_t steps_done = 0;
    uint64_t seed = 0;
  };
  // Runs the forward and backward passes of a step. Accumulates the gradients of upstream * (sum of
  // the losses) in the chunks. On ranks of the last stage, adds losses, counts and metrics to
  // `control`; on each rank, adds the counts of its routers. Requires at least one micro-batch, and
  // the same number on all ranks.
  void train(std::span<const data::Batch> micro_batches, const Step& step, double upstream,
             ControlMessage& control);
  // Runs forward passes of `model`, without gradients. model: the stages of the constructor, or
  // others over the same weights, e.g. with another head. On ranks of the last stage, adds losses,
  // counts and metrics to `control`. A micro-batch may have no sequences; the number of
  // micro-batches must be the same on all ranks.
  void evaluate(const StagedModel& model, std::span<const data::Batch> micro_batches,
                const Step& step, ControlMessage& control);

  using Schedule = parallel::pipeline::Schedule;
  const Schedule& training_schedule(size_t num_micro_batches);
  // From now on, train() appends to `times` when each computation and each wait for a message began
  // and ended; null ends the recording.
  void record(std::vector<TimedAction>* times) { times_ = times; }
  // From now on, train() calls `call` after each action of its schedule, messages included.
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
