// ChunkEngine: owns a model's weights, gradients and optimizer state on a rank, shards them by ZeRO
// stage (Rajbhandari et al. 2020), offloads them, and reduces gradients during the backward pass.
// Engine, FrozenModel and generation use this; checkpoints read and write through it.
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
// of the pipeline. parameters() also lists the parameters of stages on other ranks, so that the
// list is the same on all ranks; this rank stores nothing for these. Not thread-safe. The passes,
// finish_reduction and update are collective.
//
// A step is: begin_step; for each micro-batch and each of this rank's stages a forward pass and a
// backward pass, in the order of the pipeline's schedule; finish_reduction; then an update, or
// none. A backward pass reduces chunks in the reverse of the order in which the model uses them,
// which is the same on all ranks of a stage. Chunks with row blocks of a tied vocabulary table are
// reduced twice if the embedding and the head are on one stage and the chunks' whole gradients are
// on the device only temporarily: first the head's gradients are reduced, then the embedding's.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "colossal/memory/chunk.h"
#include "colossal/memory/chunk_fetcher.h"
#include "colossal/memory/matrix_update.h"
#include "colossal/memory/tensor_update.h"
#include "colossal/memory/tiered_update.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/nn/parameter.h"
#include "colossal/optim/parameter_groups.h"

namespace colossal::memory {

// A contiguous range of one parameter's elements that this rank writes to checkpoints. The
// functions return one-dimensional tensors with elements.size() elements: views if the elements are
// in memory, copies if they are on NVMe.
struct OwnedShard {
  const nn::Parameter* parameter = nullptr;
  Range elements;  // elements of the flattened global parameter
  const Chunk* chunk = nullptr;
  Range in_chunk;  // these elements, as elements of the chunk's buffer

  // The working weights, in the dtype in which they are stored.
  at::Tensor working() const { return chunk->weights().read(in_chunk); }
  // The masters, in their dtype. For a frozen parameter, working().
  at::Tensor master() const;
  // The gradients, summed over ranks and micro-batches. Valid from finish_reduction until the next
  // step begins. Undefined for a frozen parameter.
  at::Tensor gradient() const;
  // The optimizer's state tensors, in the order of Optimizer::state_names().
  size_t num_states() const { return chunk->state().size(); }
  at::Tensor state(size_t index) const { return chunk->state()[index]->read(in_chunk); }
};

class ChunkEngine : private nn::Residency {
 public:
  // Takes over the parameters and allocates their storage: each Parameter::tensor becomes a view of
  // its chunk. Tensors that were already defined keep their values; the values of all others must
  // then be set by initialise(), load(), store_weights() or store_packed(). Calls
  // install_allocators() (memory_ledger.h). order: the order in which the passes of each stage use
  // weights that are sharded or offloaded, the same on all ranks with these stages (record_order()
  // in engine/order_recording.h). A stage that is not in `order` fetches all such weights at once
  // in each pass. When its first backward pass ends, all ranks with this rank's stages compare the
  // orders in which they have used the weights. If one order contains all others, the stage follows
  // it from then on; otherwise it goes on fetching all weights at once. `context` must outlive
  // this. optimizers: choose the optimizer of each parameter. Throws IoError if the file on NVMe
  // cannot be created or host memory cannot be allocated.
  ChunkEngine(nn::ParameterList parameters, const ParallelContext& context,
              std::shared_ptr<const optim::ParameterGroups> optimizers, const ChunkOptions& options,
              const OrderOfStages& order = {});
  // Likewise for a model that is not trained: freezes the parameters.
  ChunkEngine(nn::ParameterList parameters, const ParallelContext& context,
              const ChunkOptions& options, const OrderOfStages& order = {});
  ~ChunkEngine() override;
  ChunkEngine(const ChunkEngine&) = delete;
  ChunkEngine& operator=(const ChunkEngine&) = delete;

  // Initialises masters and working weights by the parameters' initializers. seed: the same on all
  // ranks. also_frozen: whether to initialise frozen parameters, too. Each rank initialises its
  // shards; ranks that hold whole chunks then gather the shards. Collective.
  void initialise(uint64_t seed, bool also_frozen = true);
  // Writes `values`, [n] of any floating-point dtype, to elements [begin, begin + n) of the
  // flattened global parameter, as far as this rank holds them: to working weights and masters. For
  // a packed weight (in int8 or NF4, see Parameter::packed), `begin` must be 0, and `values` must
  // be the whole global parameter, in host memory. For a packed weight, the call is collective over
  // the ranks of tp; for a packed stack of experts, over the ranks of ep and expert_tp, which
  // together hold all experts.
  void load(const nn::Parameter& parameter, int64_t begin, const at::Tensor& values);

  // The next four functions are for values read from files. They name the elements of a parameter
  // by indices in this rank's flattened tensor-parallel shard (Parameter::local_shape()); those of
  // a packed weight are its bytes (Parameter::stored_shape()). kept_weights() and kept_state()
  // return the elements whose weights, or whose optimizer state, this rank stores; empty if it
  // stores none.
  Range kept_weights(const nn::Parameter& parameter) const;
  Range kept_state(const nn::Parameter& parameter) const;
  // Both write `values`, [n] of any floating-point dtype (for a packed weight: its bytes), from
  // element `begin` on. This rank must hold a part of the parameter (is_here()). store_weights()
  // writes working weights and masters, as far as this rank stores the elements. store_state()
  // writes an optimizer state, all elements of which must be within kept_state(); state: index in
  // Optimizer::state_names().
  void store_weights(const nn::Parameter& parameter, int64_t begin, const at::Tensor& values);
  void store_state(const nn::Parameter& parameter, size_t state, int64_t begin,
                   const at::Tensor& values);
  // Packs and stores the values of a packed weight. values: this rank's whole tensor-parallel
  // shard, of shape Parameter::local_shape() and any floating-point dtype, in host memory.
  // Collective over the ranks of tp; for a stack of experts, over the ranks of ep and expert_tp,
  // which together hold all experts. This rank must hold a part of the parameter (is_here()). Law:
  // an all-reduce of one number for each block of elements with a common scale, over the ranks of
  // tp; for a stack of experts, one such all-reduce over the ranks of ep and one over those of
  // expert_tp.
  void store_packed(const nn::Parameter& parameter, const at::Tensor& values);

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
  class HeldGradients {
   private:
    friend class ChunkEngine;
    struct Held {
      Chunk* chunk;
      size_t slot;
      bool tied;  // whether it is the gradient of the second layer that uses a tied table
      at::Tensor gradient;
    };
    std::vector<Held> held_;
  };
  void begin_backward_input(int stage, HeldGradients& held);
  void end_backward_input();
  void begin_backward_weight(bool last, int stage);
  void take(HeldGradients held);
  // Call these around a forward pass without a backward pass.
  void begin_evaluation(int stage = 0) { fetcher_->begin_evaluation(stage); }
  void end_evaluation() { fetcher_->end(); }
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
  // is_weight() returns whether `tensor` is a weight, or a view of a weight. is_transient() returns
  // whether `tensor` is a transient weight, or a view of one.
  bool is_weight(const at::Tensor& tensor) const;
  bool is_transient(const at::Tensor& tensor) const;
  // before_use() fetches the weight if necessary and keeps it on the device until after_use().
  // use_in_node() likewise keeps it at least until the running autograd node has ended. weight: a
  // tensor for which is_weight() is true.
  void before_use(const at::Tensor& weight) { fetcher_->before_use(chunk_of(weight)); }
  void after_use(const at::Tensor& weight) { fetcher_->after_use(chunk_of(weight)); }
  void use_in_node(const at::Tensor& weight) { fetcher_->use_in_node(chunk_of(weight)); }
  // Returns, for each stage, the order in which transient chunks were used: in the stage's latest
  // forward pass, and in the backward pass after that pass, if there was one.
  const OrderOfStages& order_of_use() const { return fetcher_->recorded(); }
  // Waits until gradients are summed over the ranks that share them. Call this after all passes of
  // a step. Throws IoError if the disk fails.
  void finish_reduction();

  // The next three functions are valid after finish_reduction. Each rank has a part of the
  // gradients, such that the gradient of each trained element of the model is in the part of
  // exactly one rank.

  // Returns the sum of squares of this rank's part of the gradients, before Update::gradient_scale
  // is applied. Not finite if any gradient in the part is not finite.
  double squared_gradient_norm() const;
  // Returns for each parameter, in the order of parameters(): 1 if this rank has computed a
  // gradient for it in this step, else 0.
  std::vector<double> used() const;
  // Returns the name of the first parameter with a non-finite gradient in this rank's part; "" if
  // there is none.
  std::string first_non_finite_gradient() const;

  struct Update {
    double learning_rate = 0;
    double gradient_scale = 1;  // factor by which gradients are multiplied before the update
  };
  // Updates the parameters that had a gradient on any rank; all others are unchanged.
  // used_anywhere: for each parameter, in the order of parameters(), whether used() is 1 on any
  // rank. Overwrites gradients that an optimizer transforms (optim::MatrixOptimizer). Throws
  // IoError if the disk fails. Collective.
  void update(const Update& update, const std::vector<bool>& used_anywhere);

  // Waits for all communication and writes in progress. Afterwards every working weight is up to
  // date, and whole unless weights are sharded.
  void synchronize();

  // The parameters of all stages, also of stages on other ranks.
  const nn::ParameterList& parameters() const { return parameters_; }
  // Returns whether this rank holds any part of `parameter`.
  bool is_here(const nn::Parameter& parameter) const { return places_.contains(&parameter); }
  const ChunkOptions& options() const { return options_; }
  // The argument of the constructor. Only for a model that is trained.
  const optim::ParameterGroups& optimizers() const { return *optimizers_; }
  // Returns the optimizer of a parameter; null if it is not trained.
  const optim::Optimizer* optimizer_of(const nn::Parameter& parameter) const;

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
  std::vector<int64_t> update_counts() const;
  void set_update_counts(const std::vector<int64_t>& counts);

  // Visits every range of elements that this rank writes to a checkpoint. Over all ranks, the
  // ranges cover the model exactly once, except packed weights, which are not written. With
  // `parameter`, visits only the elements of that parameter.
  void for_each_checkpoint_shard(const std::function<void(const OwnedShard&)>& visit) const;
  void for_each_checkpoint_shard(const nn::Parameter& parameter,
                                 const std::function<void(const OwnedShard&)>& visit) const;

  struct StateBytes {
    int64_t parameters = 0;
    int64_t gradients = 0;
    int64_t optimizer = 0;  // optimizer states, and masters unless weights serve as masters
    int64_t total() const { return parameters + gradients + optimizer; }
  };
  // Returns the bytes that this rank stores in `tier` between uses. Gradients on the device are
  // included even while they have no memory.
  StateBytes state_bytes(Tier tier) const;

  // Returns the bytes of tensors that an update of all parameters reads or writes on this rank:
  // masters and optimizer states twice, gradients and working weights once. Not counted are passes
  // that an optimizer makes before its update.
  int64_t update_bytes() const;

  // Returns the bytes moved to and from tiers other than the device since construction.
  const TierPools::Traffic& tier_traffic() const { return memory_.pools.traffic(); }
  // Returns, by kind, the bytes that a tier other than the device stored when it stored the most
  // since the last begin_step() (before the first: since construction).
  const BytesByKind& at_rest(Tier tier) const { return memory_.pools.at_rest(tier); }
  // This rank's memory in the tiers other than the device (tiers.h).
  TierPools& tier_pools() { return memory_.pools; }

 private:
  class GradientHook;

  void make_updates();
  // Updates all chunks by their optimizers' update().
  void run_updates(const TensorUpdates::ScalarsOf& scalars_of);
  void before_use(nn::Parameter& parameter) override;
  void before_use_of(nn::Parameter& parameter, const std::vector<int64_t>& counts) override;
  void after_use(nn::Parameter& parameter) override;
  int chunk_of(const at::Tensor& weight) const {
    return storages_.at(weight.storage().unsafeGetStorageImpl());
  }
  // Returns the elements of `parameter` that lie in the range `in_chunk` of its chunk's buffer, as
  // indices in this rank's flattened tensor-parallel shard. Empty if none lies there.
  Range kept_of(const nn::Parameter& parameter, Range in_chunk) const;
  void pack_initial_values(const nn::Parameter& parameter, uint64_t seed);
  // Makes the parameters of a chunk views of its buffer, and installs their gradient hooks.
  void attach(int index);
  // Returns this rank's stage whose backward passes complete the gradient of a parameter with this
  // placement; -1 if only other ranks hold the parameter.
  int stage_here(const nn::Placement& placement) const;
  nn::ParameterList parameters_here() const;  // those of which this rank holds a part
  // Marks the gradients that the backward pass of stage_ will produce as pending.
  void expect_gradients(Chunk& chunk);
  bool reduces_now(const Chunk& chunk) const;  // in the running backward pass
  // Called by the gradient hook of `leaf` when leaf.grad() is complete. tied: whether the gradient
  // is that of the second layer that uses a tied table.
  void collect_gradient(Chunk& chunk, size_t slot, bool tied, const at::Tensor& leaf);
  // Adds a gradient to the chunk's whole gradients, and launches the reductions that are now ready.
  void take_gradient(Chunk& chunk, size_t slot, bool tied, at::Tensor gradient);
  void launch_ready_chunks();
  // A reduction of a chunk in a backward pass.
  struct Launch {
    Chunk* chunk;
    // Whether it reduces only the gradients from the second layer that uses a tied table. Another
    // Launch then reduces the gradients from the first.
    bool tied;
    bool ready() const { return (tied ? chunk->pending_tied : chunk->pending) == 0; }
  };
  void launch(const Launch& next);
  void finish_oldest_reduction();
  // Returns the tiers of each chunk, by the shares in options_.tiers.
  std::vector<ChunkTiers> tiers_of(const std::vector<ChunkPlan>& plans) const;
  // Visits the ranges of a slot that this rank writes to a checkpoint.
  void visit_written(const Chunk& chunk, size_t slot,
                     const std::function<void(const OwnedShard&)>& visit) const;

  nn::ParameterList parameters_;
  const ParallelContext& context_;
  const comm::Group alone_;                                   // this rank alone
  std::shared_ptr<const optim::ParameterGroups> optimizers_;  // null if nothing is trained
  ChunkOptions options_;
  ChunkMemory memory_;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<Chunk*> trained_;  // chunks that are not frozen; the chunk used last is first
  // By stage, the reductions of a backward pass in their order: first those of tied gradients, then
  // all others, both in the order of trained_.
  std::map<int, std::vector<Launch>> launch_orders_;
  const std::vector<Launch>* launch_order_ = nullptr;  // of the running backward pass
  size_t launched_ = 0;                                // number of entries of it launched so far
  int stage_ = 0;                                      // stage of the running backward pass
  Chunk* launched_last_ = nullptr;                     // its reduction may have to be continued
  std::deque<Launch> reducing_;  // launched, transient gradients not released yet; oldest first
  std::unique_ptr<ChunkFetcher> fetcher_;
  bool last_pass_ = false;         // whether the running backward pass is its stage's last
  HeldGradients* held_ = nullptr;  // where the running pass holds back gradients; null: it does not
  std::unordered_map<const nn::Parameter*, int64_t> updates_;  // number of updates so far
  // Null if no parameter has such an optimizer.
  std::unique_ptr<TensorUpdates> tensor_updates_;
  std::unique_ptr<MatrixUpdates> matrix_updates_;

  struct Place {
    Chunk* chunk;
    size_t slot;
    int index;  // index of the chunk in chunks_
  };
  std::unordered_map<const nn::Parameter*, Place> places_;
  std::unordered_map<const c10::StorageImpl*, int> storages_;  // weights' storage: index of chunk
};

}  // namespace colossal::memory
