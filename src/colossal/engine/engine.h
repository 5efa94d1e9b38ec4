// Engine trains and evaluates a model whose parameters and micro-batches are divided among the
// ranks of a ParallelContext. step() is one optimizer update over the global batch. Engines are
// made by Booster, and by the training loop in trainer.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "colossal/data/batch.h"
#include "colossal/engine/control.h"
#include "colossal/engine/engine_config.h"
#include "colossal/engine/non_finite_error.h"
#include "colossal/engine/pipeline_executor.h"
#include "colossal/engine/router_balance.h"
#include "colossal/engine/staged_model.h"
#include "colossal/job/routing_file.h"
#include "colossal/memory/chunk_engine.h"
#include "colossal/mesh/parallel_context.h"

namespace colossal {

struct StepResult {
  int64_t step = 0;  // number of this step, from 1; skipped steps count, too
  double loss = 0;   // mean over the labels of the global batch, before the update
  // Norm of the gradient of `loss` plus the router losses (router_loss.h), before clipping. `loss`
  // itself does not contain the router losses.
  double grad_norm = 0;
  double learning_rate = 0;  // learning rate of this update
  int64_t units = 0;         // data::Batch::units of the global batch: tokens or images
  // true: all labels were ignored, so no weight was updated; `loss` and `grad_norm` are 0.
  bool skipped = false;
  bool stop_requested = false;  // whether any rank received a request to stop
  // Metrics of the loss and of the routers by name: means over the step, or maxima if is_maximum()
  // (control.h) is true for the name. A metric without values is absent.
  std::map<std::string, double> metrics = {};
  // Rows (routed tokens) of each expert in this step; empty for a model without experts, and
  // if `skipped`.
  RowsOfExperts expert_rows = {};
};

class Engine {
 public:
  // Makes an engine for a model that is a single stage. `context` must outlive the engine.
  Engine(nn::ParameterList parameters, LossFunction loss, const ParallelContext& context,
         const EngineConfig& config);
  // Makes an engine for a model with as many stages as the context's strategy has. parameters: the
  // parameters of all stages, also of stages on other ranks. `context` must outlive the engine.
  Engine(nn::ParameterList parameters, StagedModel model, const ParallelContext& context,
         const EngineConfig& config);

  // Callbacks of update(), both called on every rank.
  struct UpdateRequest {
    // Returns whether this rank received a request to stop. Called once, before the control
    // all-reduce. If any rank returns true, StepResult::stop_requested is true on all ranks.
    std::function<bool()> stop_requested = [] { return false; };
    // Called after the control all-reduce, before any weight changes. Not called if the step is
    // skipped or fails.
    std::function<void()> before_update = [] {};
  };
  // forward_backward() computes and reduces the gradients of the next step; update() then clips
  // them and updates the weights; step() does both. Collective over all ranks.
  // micro_batches: this replica's micro-batches of the global batch, in order; at least one, and
  // the same number in all replicas, each with at least one sequence. All ranks of a replica pass
  // the same whole micro-batches; the engine takes this rank's part of their sequences
  // (data::local_batch()). Micro-batches may differ in their number of sequences and in
  // the length of their sequences. update() and step() throw NonFiniteError. All three functions
  // throw IoError if a memory tier fails, and CommError if a rank is lost. The messages of all
  // these errors begin with the step's number.
  // If a step fails otherwise than by NonFiniteError, the world is aborted (World::abort()), so
  // that the other ranks do not wait for this one.
  void forward_backward(const std::vector<data::Batch>& micro_batches);
  StepResult update(const UpdateRequest& request);
  StepResult step(const std::vector<data::Batch>& micro_batches, const UpdateRequest& request);
  StepResult step(const std::vector<data::Batch>& micro_batches) {
    return step(micro_batches, UpdateRequest());
  }
  // Sets a function that is called before the world is aborted, to end what other ranks still take
  // part in, such as a save in the background. It must not throw.
  void before_abort(std::function<void()> end_work) { before_abort_ = std::move(end_work); }

  // Results of evaluate(), over the micro-batches of all replicas.
  struct Evaluation {
    double loss_sum = 0;                         // sum over the labels that are not ignored
    double count = 0;                            // number of labels that are not ignored
    bool stop_requested = false;                 // whether any rank received a request to stop
    std::map<std::string, double> metrics = {};  // as in StepResult, without those of the routers
    double mean() const { return count > 0 ? loss_sum / count : 0; }
  };
  // Computes losses without gradients and without an update. micro_batches: this replica's
  // micro-batches, the same number in all replicas; a micro-batch may have no sequences.
  // stop_requested: as in UpdateRequest. stages: a model with another head on the same weights;
  // null: the trained model. Collective over all ranks.
  Evaluation evaluate(
      const std::vector<data::Batch>& micro_batches,
      const std::function<bool()>& stop_requested = [] { return false; },
      const StagedModel* stages = nullptr);

  // Makes training steps append a TimedAction to `times` for each computation, and for each wait
  // for a message, of this rank. null ends the recording. `times` must live until then.
  void record_actions(std::vector<TimedAction>* times) { executor_.record(times); }
  // Makes training steps call `call` after each action of the pipeline schedule on this rank, with
  // the action. An empty function ends this.
  void after_each_action(PipelineExecutor::AfterAction call) {
    executor_.after_each_action(std::move(call));
  }
  // Returns the pipeline schedule of a training step with `num_micro_batches` micro-batches. Valid
  // as long as the engine.
  const parallel::pipeline::Schedule& training_schedule(size_t num_micro_batches) {
    return executor_.training_schedule(num_micro_batches);
  }

  // Number of steps so far, skipped steps included. In a resumed run, the caller sets the number of
  // steps before the checkpoint by set_steps_done().
  int64_t steps_done() const { return steps_done_; }
  void set_steps_done(int64_t steps) { steps_done_ = steps; }
  memory::ChunkEngine& chunks() { return chunks_; }
  const memory::ChunkEngine& chunks() const { return chunks_; }
  const EngineConfig& config() const { return config_; }
  const ParallelContext& context() const { return context_; }

 private:
  // Calls part(), a part of the next step, and returns its result. If it throws IoError or
  // CommError, puts the step's number in front of the message.
  template <typename Part>
  auto in_step(const Part& part);
  StepResult run_update(const UpdateRequest& request);
  // Returns 1 / global_batch, the factor of every loss in the backward pass. update() corrects
  // gradients for the number of labels, which is known only after the control all-reduce.
  double gradient_scale() const;
  ControlMessage empty_message() const;  // zeros, in vectors of the sizes that this model needs
  std::map<std::string, double> means_of_metrics(const ControlSums& all) const;
  RowsOfExperts rows_of_experts(const ControlSums& all) const;
  void add_router_metrics(const ControlSums& all, std::map<std::string, double>& metrics) const;

  const ParallelContext& context_;
  EngineConfig config_;
  optim::Schedule schedule_;
  std::shared_ptr<const optim::ParameterGroups> optimizers_;
  memory::ChunkEngine chunks_;
  std::optional<RouterBalance> router_balance_;  // nullopt: router biases do not change
  memory::Activations activations_;
  StagedModel model_;
  PipelineExecutor executor_;
  ControlMessage control_;  // this rank's numbers from forward_backward(), until update()
  int64_t steps_done_ = 0;
  std::function<void()> before_abort_ = [] {};
};

}  // namespace colossal
