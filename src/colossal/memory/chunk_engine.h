// ChunkEngine: a ParameterStore that runs steps. It shards weights, gradients and optimizer state
// by ZeRO stage (Rajbhandari et al. 2020), offloads them, fetches weights for passes, reduces
// gradients during the backward pass (GradientReducer) and updates weights (UpdateRunner). Engine,
// FrozenModel and generation use this; checkpoints read and write through it.
//
//   stage 0   every rank holds and updates everything; gradients are all-reduced
//   stage 1   a rank holds the masters and optimizer state of its shard of each chunk, and updates
//             the shard: gradients are reduce-scattered, updated weights all-gathered
//   stage 2   gradients are sharded too. A chunk's gradients are whole only until they are reduced
//   stage 3   weights are sharded too, and gathered ahead of their uses in forward and backward
//             passes: see fetch_plan.h
//
// Stages 0 and 1 reduce gradients once per step, in the last backward pass. Stages 2 and 3 reduce
// them in each backward pass (with ChunkOptions::reduce_once_per_step: only in the last one).
//
// With Strategy::zero_group, chunks are divided only over the ranks of a smaller group, and weights
// are gathered within it. Gradients are reduce-scattered within the group, and the shards are then
// all-reduced with the ranks that hold the same shard in other groups.
//
// Below, a stage is a stage of the pipeline, not of ZeRO; stages are numbered from 0 over all ranks
// of the pipeline. Not thread-safe. The passes, finish_reduction and update are collective.
//
// A step is: begin_step; for each micro-batch and each of this rank's stages a forward pass and a
// backward pass, in the order of the pipeline's schedule; finish_reduction; then an update, or
// none.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "colossal/memory/chunk_fetcher.h"
#include "colossal/memory/gradient_reducer.h"
#include "colossal/memory/parameter_store.h"
#include "colossal/memory/update_runner.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/nn/parameter.h"
#include "colossal/optim/parameter_groups.h"

namespace colossal::memory {

class ChunkEngine : public ParameterStore, private nn::Residency {
 public:
  // Takes over the parameters, as ParameterStore does. order: the order in which the passes of each
  // stage use weights that are sharded or offloaded, the same on all ranks with these stages
  // (record_order() in engine/order_recording.h). A stage that is not in `order` fetches all such
  // weights at once in each pass. When its first backward pass ends, all ranks with this rank's
  // stages compare the orders in which they have used the weights. If one order contains all
  // others, the stage follows it from then on; otherwise it goes on fetching all weights at once.
  ChunkEngine(nn::ParameterList parameters, const ParallelContext& context,
              std::shared_ptr<const optim::ParameterGroups> optimizers, const ChunkOptions& options,
              const OrderOfStages& order = {});
  // Likewise for a model that is not trained: freezes the parameters.
  ChunkEngine(nn::ParameterList parameters, const ParallelContext& context,
              const ChunkOptions& options, const OrderOfStages& order = {});
  ~ChunkEngine() override;

  // begin: called when autograd computes a gradient, or needs a weight that is not on the device,
  // outside of a pass: it must begin a backward pass. For programs that call backward() themselves.
  // Without it, such a use is an InternalError.
  void on_unannounced_pass(std::function<void()> begin);

  // Begins a step: releases the gradients of the step before.
  void begin_step();
  // Call these around the passes of a stage over a micro-batch; passes must not overlap. If the
  // backward pass directly follows the forward pass: begin_micro_batch, forward pass,
  // begin_backward, backward pass, end_backward. Otherwise: begin_forward, forward pass,
  // end_forward, and later begin_backward, backward pass, end_backward. last: whether this is the
  // stage's last backward pass of the step.
  void begin_micro_batch(int stage = 0) { fetcher_->begin_training(stage); }
  void begin_forward(int stage) { fetcher_->begin_forward(stage); }
  void end_forward() { fetcher_->end(); }
  void begin_backward(bool last, int stage = 0);
  void end_backward();
  // For a backward pass in two halves (ops/deferred_gradients.h), with other passes between them.
  // First half: begin_backward_input, backward pass, end_backward_input. The pass computes some
  // weight gradients and defers the others. Those that it computes are put into `held`, which must
  // exist until end_backward_input. Second half: begin_backward_weight, take(held), the computation
  // of the deferred weight gradients, end_backward. take() adds the gradients in `held` to the
  // step's gradients. last: whether this is the stage's last second half of the step.
  void begin_backward_input(int stage, HeldGradients& held);
  void end_backward_input();
  void begin_backward_weight(bool last, int stage);
  void take(HeldGradients held) { reducer_->take(std::move(held)); }
  // Call these around a forward pass without a backward pass.
  void begin_evaluation(int stage = 0) { fetcher_->begin_evaluation(stage); }
  void end_evaluation() { fetcher_->end(); }
  // In place of begin_forward or begin_evaluation, around a pass of a part of the model, whose uses
  // may come in any order: weights are fetched when they are used.
  void begin_on_demand(int stage = 0) { fetcher_->begin_on_demand(stage); }
  // Between these, any weights may be used in any order: all are whole on the device.
  void begin_gathering(int stage = 0) { fetcher_->begin_gathering(stage); }
  void end_gathering() { fetcher_->end(); }
  // Call this once, in place of begin_evaluation and end_evaluation around each pass, if the model
  // runs only forward passes from now on and its weights do not change. The first weights of the
  // next pass are fetched before the current pass ends. These passes count as passes of stage 0,
  // whichever stage this rank has. If weights are transient (see below), the order of use of stage
  // 0 must be in the constructor's `order`, or recorded by an earlier backward pass.
  void begin_inference() { fetcher_->begin_inference(); }

  // Returns whether any weights are transient: whole on the device only around their uses, because
  // they are sharded or offloaded.
  bool weights_are_transient() const { return fetcher_->any_transient(); }
  // Returns the largest number of bytes of transient weights that are on the device at once during
  // inference, according to the fetch plan; 0 if no order of use is known.
  int64_t fetched_peak_bytes() const { return fetcher_->inference_peak_bytes(); }
  // before_use() fetches the weight if necessary and keeps it on the device until after_use().
  // use_in_node() likewise keeps it at least until the running autograd node has ended. weight: a
  // tensor for which is_weight() is true.
  void before_use(const at::Tensor& weight) { fetcher_->before_use(chunk_of(weight)); }
  void after_use(const at::Tensor& weight) { fetcher_->after_use(chunk_of(weight)); }
  void use_in_node(const at::Tensor& weight);
  // Returns, for each stage, the order in which transient chunks were used: in the stage's latest
  // forward pass, and in the backward pass after that pass, if there was one.
  const OrderOfStages& order_of_use() const { return fetcher_->recorded(); }
  // Waits until gradients are summed over the ranks that share them. Call this after all passes of
  // a step. Throws IoError if the disk fails.
  void finish_reduction() { reducer_->finish(); }

  // The next three functions are valid after finish_reduction. Each rank has a part of the
  // gradients, such that the gradient of each trained element of the model is in the part of
  // exactly one rank.

  // Returns the sum of squares of this rank's part of the gradients, before Update::gradient_scale
  // is applied. Not finite if any gradient in the part is not finite.
  ops::PendingSum squared_gradient_norm() const { return reducer_->squared_norm(); }
  // Returns for each parameter, in the order of parameters(): 1 if this rank has computed a
  // gradient for it in this step, else 0.
  std::vector<double> used() const;
  // Returns the name of the first parameter with a non-finite gradient in this rank's part; "" if
  // there is none.
  std::string first_non_finite_gradient() const;

  using Update = UpdateRunner::Update;
  // Updates the parameters that had a gradient on any rank; all others are unchanged.
  // used_anywhere: for each parameter, in the order of parameters(), whether used() is 1 on any
  // rank. Overwrites gradients that an optimizer transforms (optim::MatrixOptimizer). Throws
  // IoError if the disk fails. Collective.
  void update(const Update& update, const std::vector<bool>& used_anywhere);

  // Waits for all communication and writes in progress. Afterwards every working weight is up to
  // date, and whole unless weights are sharded.
  void synchronize();

  // The state tensors of a parameter that have a shape of their own (Optimizer::whole_states()).
  // whole_state_specs() returns their names and shapes, on all ranks. Row blocks of one tensor have
  // the same whole states.
  std::vector<optim::WholeState> whole_state_specs(const nn::Parameter& parameter) const;
  // Consecutive elements of a whole state that this rank stores. Writing to `values` changes them.
  struct WholeStatePart {
    size_t state;       // index in whole_state_specs()
    int64_t begin;      // index of the first element in the flattened state
    at::Tensor values;  // of any shape
    bool writes;        // whether this rank writes it to checkpoints: one rank does
  };
  std::vector<WholeStatePart> whole_state_parts(const nn::Parameter& parameter) const;

  // The number of updates so far: one number for each tensor, in the order of parameters(). The row
  // blocks of a vocabulary table are several parameters but one tensor, with one number. The
  // numbers are part of the optimizer state that checkpoints store. The argument of
  // set_update_counts() is an earlier result of update_counts().
  std::vector<int64_t> update_counts() const { return updates_->counts(); }
  void set_update_counts(const std::vector<int64_t>& counts) { updates_->set_counts(counts); }

  // Returns the bytes that this rank stores in `tier` between uses. Gradients on the device are
  // included even while they have no memory.
  StateBytes state_bytes(Tier tier) const;

  // Returns the bytes of tensors that an update of all parameters reads or writes on this rank:
  // masters and optimizer states twice, gradients and working weights once. Not counted are passes
  // that an optimizer makes before its update.
  int64_t update_bytes() const;

 private:
  void before_use(nn::Parameter& parameter) override;
  void before_use_of(nn::Parameter& parameter, const std::vector<int64_t>& counts) override;
  void after_use(nn::Parameter& parameter) override;

  std::function<void()> begin_unannounced_;
  std::unique_ptr<GradientReducer> reducer_;
  std::unique_ptr<ChunkFetcher> fetcher_;
  std::unique_ptr<UpdateRunner> updates_;
};

}  // namespace colossal::memory
