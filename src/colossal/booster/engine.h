// A model made trainable at a layout: step() is one optimizer update over the global batch.
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
  int64_t total_steps = 1;     // where the schedule ends
  int64_t global_batch = 1;    // sequences of a step, over all replicas
  double gradient_clip = 1.0;  // largest global norm; 0: none
  uint64_t seed = 0;           // of initial weights and dropout
  Precision precision;
  bool uses_parameter_handles = true;  // false for a foreign module: see memory::ChunkOptions
  bool reduce_once_per_step = false;   // stages 2 and 3: see memory::ChunkOptions
  int64_t chunk_bytes = memory::ChunkOptions{}.chunk_bytes;
  int64_t window_bytes = memory::ChunkOptions{}.window_bytes;
  memory::Recompute recompute;
  memory::Tiers tiers;
  // The order in which a micro-batch uses weights, by stage, if they are sharded or offloaded: see
  // record_order(). If it is unknown, the first micro-batch finds it, with all weights gathered.
  memory::OrderOfStages order;
  std::vector<std::string> metrics;  // names of the metrics that the loss gives: see is_maximum()
  // The costs of a pipeline's stages, by which schedules that have a choice decide. Empty: all
  // stages cost the same.
  parallel::pipeline::Costs stage_costs;
  // Of a model with experts: its blocks, whether they have any or not, and the experts of those
  // that do. 0: routers are not counted.
  int64_t expert_layers = 0;
  int64_t experts = 0;
  bool routers_drop = false;  // they have a capacity: what is dropped is counted
  // By how much a step moves the correction biases of routers, in a model that has them, towards
  // experts that had fewer rows than the mean (L. Wang et al. 2024, "Auxiliary-Loss-Free Load
  // Balancing").
  double router_bias_rate = 0;
};

struct StepResult {
  int64_t step = 0;                            // updates done, this one included
  double loss = 0;                             // mean over the global batch, before the update
  double grad_norm = 0;                        // of the mean's gradient, before clipping
  double learning_rate = 0;                    // used
  int64_t tokens = 0;                          // inputs of the global batch
  bool skipped = false;                        // no label counted: nothing moved
  bool stop_requested = false;                 // by any rank
  std::map<std::string, double> metrics = {};  // means of the loss's metrics; none given: left out
  RowsOfExperts expert_rows = {};              // of a model with experts
};

// A loss or gradient that is not finite. No rank has updated: the state is that before the step.
class NonFiniteError : public Error {
 public:
  NonFiniteError(int64_t step, const std::string& what);
  int64_t step;
};

class Engine {
 public:
  // For a model that is one stage.
  Engine(nn::ParameterList parameters, LossFunction loss, const ParallelContext& context,
         const EngineConfig& config);
  // For a model in as many stages as the context's strategy has. `parameters`: of all stages.
  Engine(nn::ParameterList parameters, StagedModel model, const ParallelContext& context,
         const EngineConfig& config);

  struct UpdateRequest {
    // Whether this rank was asked to stop: called when the gradients are complete. The result tells
    // all ranks.
    std::function<bool()> stop_requested = [] { return false; };
    // Called when all ranks have agreed to update, before anything changes.
    std::function<void()> before_update = [] {};
  };
  // step() is forward_backward(), then update(). `micro_batches`: this replica's share of the
  // global batch, in order, a forward each; at least one, and equally many in all replicas. Their
  // lengths may differ. Collective over all ranks. Throws NonFiniteError, and IoError, naming the
  // step, where a tier fails.
  void forward_backward(const std::vector<data::Batch>& micro_batches);
  StepResult update(const UpdateRequest& request);
  StepResult step(const std::vector<data::Batch>& micro_batches, const UpdateRequest& request);
  StepResult step(const std::vector<data::Batch>& micro_batches) {
    return step(micro_batches, UpdateRequest());
  }

  // Sum of losses and count over all replicas' micro-batches, without updates; they may be empty.
  // Collective. stop_requested: as for step(). stages: a model with another head on the same
  // weights; null: the one that is trained.
  struct Evaluation {
    double loss_sum = 0;
    double count = 0;
    bool stop_requested = false;
    std::map<std::string, double> metrics = {};  // as StepResult's
    double mean() const { return count > 0 ? loss_sum / count : 0; }
  };
  Evaluation evaluate(
      const std::vector<data::Batch>& micro_batches,
      const std::function<bool()>& stop_requested = [] { return false; },
      const StagedModel* stages = nullptr);

  // From now on training steps append to `times` when they carry out each action; null stops that.
  // training_schedule() returns the schedule of a step of `num_micro_batches`.
  void record_actions(std::vector<TimedAction>* times) { executor_.record(times); }
  void after_each_action(PipelineExecutor::AfterAction call) {
    executor_.after_each_action(std::move(call));
  }
  const parallel::pipeline::Schedule& training_schedule(size_t num_micro_batches) {
    return executor_.training_schedule(num_micro_batches);
  }

  int64_t steps_done() const { return steps_done_; }
  void set_steps_done(int64_t steps) { steps_done_ = steps; }
  memory::ChunkEngine& chunks() { return chunks_; }
  const memory::ChunkEngine& chunks() const { return chunks_; }
  const EngineConfig& config() const { return config_; }
  const ParallelContext& context() const { return context_; }

 private:
  // Runs `part` of the step that is next; an IoError or CommError of it names the step.
  template <typename Part>
  auto in_step(const Part& part);
  StepResult run_update(const UpdateRequest& request);
  double gradient_scale() const;
  ControlMessage empty_message() const;
  std::map<std::string, double> means_of_metrics(const ControlMessage& all) const;
  RowsOfExperts rows_of_experts(const ControlMessage& all) const;
  void add_router_metrics(const ControlMessage& all, std::map<std::string, double>& metrics) const;
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
  ControlMessage control_;  // of the forward and backward passes that wait for their update
  int64_t steps_done_ = 0;
};

}  // namespace colossal
