// Trains a model at a layout. step() is one optimizer update over the global batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "colossal/base/error.h"
#include "colossal/booster/control.h"
#include "colossal/booster/pipeline_executor.h"
#include "colossal/booster/precision.h"
#include "colossal/booster/routing_file.h"
#include "colossal/booster/staged_model.h"
#include "colossal/data/batch.h"
#include "colossal/memory/activations.h"
#include "colossal/memory/chunk_engine.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/optim/optimizer.h"
#include "colossal/optim/schedule.h"
#include "colossal/parallel/pipeline/costs.h"

namespace colossal {

struct EngineConfig {
  optim::OptimizerConfig optimizer;
  optim::ScheduleConfig schedule;
  int64_t total_steps = 1;     // length of the learning-rate schedule
  int64_t global_batch = 1;    // sequences per step, over all replicas
  double gradient_clip = 1.0;  // maximal global gradient norm; 0: no clipping
  uint64_t seed = 0;           // for initial weights and dropout
  Precision precision;
  // false for a user's own torch module: see memory::ChunkOptions
  bool uses_parameter_handles = true;
  bool reduce_once_per_step = false;  // for ZeRO stages 2 and 3: see memory::ChunkOptions
  // See memory::ChunkOptions.
  int64_t chunk_bytes = memory::ChunkOptions{}.chunk_bytes;
  int64_t window_bytes = memory::ChunkOptions{}.window_bytes;
  memory::Recompute recompute;
  memory::Tiers tiers;
  // If weights are sharded or offloaded: the order in which a micro-batch uses them, by stage, from
  // record_order(). If empty, the first micro-batch of each stage gathers all weights and records
  // the order.
  memory::OrderOfStages order;
  // Names of the metrics that the loss returns (LossSum::metrics). See also is_maximum().
  std::vector<std::string> metrics;
  // Costs of the pipeline's stages, for schedules that depend on costs. Empty: all stages cost the
  // same.
  parallel::pipeline::Costs stage_costs;
  // Only for a model with experts: the number of all its blocks, and the number of experts of each
  // block that has experts. If `experts` is 0, router statistics are not collected.
  int64_t expert_layers = 0;
  int64_t experts = 0;
  bool routers_drop = false;  // true: experts have a capacity; reports the part of dropped choices
  // How much a step changes the correction bias of each expert. The bias rises for experts that had
  // fewer rows than the mean of their layer, and falls for experts that had more (L. Wang et al.
  // 2024, "Auxiliary-Loss-Free Load Balancing"). 0: biases do not change.
  double router_bias_rate = 0;
};

struct StepResult {
  int64_t step = 0;             // number of updates so far, including this one
  double loss = 0;              // mean over the global batch, before the update
  double grad_norm = 0;         // of the gradient of that mean, before clipping
  double learning_rate = 0;     // of this update
  int64_t tokens = 0;           // input tokens of the global batch, without padding
  bool skipped = false;         // all labels were ignored, so nothing was updated
  bool stop_requested = false;  // on any rank
  // Means over the step, or maxima: see is_maximum(). A metric without values is absent.
  std::map<std::string, double> metrics = {};
  RowsOfExperts expert_rows = {};  // only for a model with experts
};

// Thrown on all ranks if a loss or gradient is not finite on any rank. No rank has updated: weights
// and optimizer state are those before the step. what: names the loss or the gradient.
class NonFiniteError : public Error {
 public:
  NonFiniteError(int64_t step, const std::string& what);
  int64_t step;
};

class Engine {
 public:
  // For a model that is a single stage. `context` must outlive the engine.
  Engine(nn::ParameterList parameters, LossFunction loss, const ParallelContext& context,
         const EngineConfig& config);
  // For a model in as many stages as the context's strategy has. parameters: those of all stages,
  // also of stages on other ranks.
  Engine(nn::ParameterList parameters, StagedModel model, const ParallelContext& context,
         const EngineConfig& config);

  struct UpdateRequest {
    // Called by update() before ranks agree. Returns whether this rank received a request to stop.
    // StepResult::stop_requested is then true on all ranks.
    std::function<bool()> stop_requested = [] { return false; };
    // Called once all ranks have agreed to update, before any weight changes. Not called if the
    // step is skipped.
    std::function<void()> before_update = [] {};
  };
  // step() is forward_backward() followed by update(). micro_batches: this replica's micro-batches
  // of the global batch, in order; at least one, and the same number in all replicas. Micro-batches
  // may differ in their numbers of sequences and in the lengths of these. Collective over all
  // ranks. update() throws NonFiniteError. All three throw IoError, with the step's number, if a
  // memory tier fails.
  void forward_backward(const std::vector<data::Batch>& micro_batches);
  StepResult update(const UpdateRequest& request);
  StepResult step(const std::vector<data::Batch>& micro_batches, const UpdateRequest& request);
  StepResult step(const std::vector<data::Batch>& micro_batches) {
    return step(micro_batches, UpdateRequest());
  }

  // Sums over the micro-batches of all replicas.
  struct Evaluation {
    double loss_sum = 0;
    double count = 0;                            // labels that are not ignored
    bool stop_requested = false;                 // on any rank
    std::map<std::string, double> metrics = {};  // as in StepResult
    double mean() const { return count > 0 ? loss_sum / count : 0; }
  };
  // Computes losses without gradients and without an update. micro_batches: this replica's, the
  // same number in all replicas; they may have no sequences. stop_requested: as in UpdateRequest.
  // stages: a model with another head on the same weights; null: the trained model. Collective over
  // all ranks.
  Evaluation evaluate(
      const std::vector<data::Batch>& micro_batches,
      const std::function<bool()>& stop_requested = [] { return false; },
      const StagedModel* stages = nullptr);

  // From now on, training steps append the times of each action to `times`; null ends the
  // recording.
  void record_actions(std::vector<TimedAction>* times) { executor_.record(times); }
  // From now on, `call` is called after each action of a training step.
  void after_each_action(PipelineExecutor::AfterAction call) {
    executor_.after_each_action(std::move(call));
  }
  // Returns the schedule of a training step with `num_micro_batches`.
  const parallel::pipeline::Schedule& training_schedule(size_t num_micro_batches) {
    return executor_.training_schedule(num_micro_batches);
  }

  int64_t steps_done() const { return steps_done_; }  // updates so far, also those resumed
  void set_steps_done(int64_t steps) { steps_done_ = steps; }
  memory::ChunkEngine& chunks() { return chunks_; }
  const memory::ChunkEngine& chunks() const { return chunks_; }
  const EngineConfig& config() const { return config_; }
  const ParallelContext& context() const { return context_; }

 private:
  // Runs `part` of the next step. If `part` throws IoError or CommError, adds the step's number to
  // the message.
  template <typename Part>
  auto in_step(const Part& part);
  StepResult run_update(const UpdateRequest& request);
  double gradient_scale() const;  // factor of every loss in the backward pass
  ControlMessage empty_message() const;
  std::map<std::string, double> means_of_metrics(const ControlMessage& all) const;
  RowsOfExperts rows_of_experts(const ControlMessage& all) const;
  void add_router_metrics(const ControlMessage& all, std::map<std::string, double>& metrics) const;
  // counts: ControlMessage::routers, summed over all ranks.
  void move_router_biases(const std::vector<double>& counts);
  void refuse_non_finite(const ControlMessage& control);

  const ParallelContext& context_;
  EngineConfig config_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  optim::Schedule schedule_;
  memory::ChunkEngine chunks_;
  memory::Activations activations_;
  StagedModel model_;
  PipelineExecutor executor_;
  ControlMessage control_;  // this rank's numbers from forward_backward(), until update()
  int64_t steps_done_ = 0;
};

}  // namespace colossal
