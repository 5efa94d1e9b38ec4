// Owns a model's parameters, gradients and optimizer state, shards them by ZeRO stage (Rajbhandari
// et al. 2020), and reduces gradients during the backward pass.
//
//   stage 0   every rank holds and updates everything; gradients are all-reduced
//   stage 1   a rank holds the masters and optimizer state of its shard of each chunk, and updates
//             the shard: gradients are reduce-scattered, updated weights all-gathered
//   stage 2   gradients are sharded too. They are whole from a chunk's first gradient to its
//             reduction after each micro-batch (with ChunkOptions::reduce_once_per_step: after
//             the last)
//   stage 3   weights are sharded too, and gathered ahead of their uses in forward and backward
//             passes: see fetch_plan.h
//
// With Strategy::zero_group, shards are divided only over the ranks of a smaller group, and weights
// are gathered within it. Gradients are reduce-scattered within the group, and the shards are then
// all-reduced with the ranks that hold the same shard in other groups.
//
// A step is: begin_step; for each micro-batch and each of this rank's pipeline stages a forward and
// a backward pass, in the order of the pipeline's schedule; finish_reduction; then an update, or
// none. A backward pass reduces chunks in reverse order of use, which is the same on all ranks of a
// stage. Chunks with row blocks of a tied table are reduced twice if their gradients are transient:
// first the head's gradients, then the embedding's. parameters() also lists the parameters of
// stages on other ranks, so that the list is the same on all ranks; this rank stores nothing for
// them. Not thread-safe. The passes, finish_reduction and update are collective.
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
#include "colossal/memory/tiered_update.h"
#include "colossal/mesh/parallel_context.h"
#include "colossal/nn/parameter.h"
#include "colossal/optim/optimizer.h"

namespace colossal::memory {

// A contiguous range of one parameter's elements that this rank holds; the unit that checkpoints
// write. The tensors returned are one-dimensional with elements.size() elements: views if stored in
// memory, copies if stored on NVMe.
struct OwnedShard {
  const nn::Parameter* parameter = nullptr;
  Range elements;  // elements of the flattened global parameter
  const Chunk* chunk = nullptr;
  Range in_chunk;  // the same elements, by position in the chunk

  at::Tensor working() const { return chunk->weights().read(in_chunk); }  // in the compute dtype
  // In the masters' dtype. For a frozen parameter, working().
  at::Tensor master() const;
  // Summed over ranks. Valid from finish_reduction until the next step begins. Undefined for a
  // frozen parameter.
  at::Tensor gradient() const;
  // The optimizer's state tensors, in the order of Optimizer::state_names().
  size_t num_states() const { return chunk->state().size(); }
  at::Tensor state(size_t index) const { return chunk->state()[index]->read(in_chunk); }
};

class ChunkEngine : private nn::Residency {
 public:
  // Takes over the parameters and allocates their storage: each Parameter::tensor becomes a view of
  // its chunk. Values of tensors that were already defined are kept, all others are to be set by
  // initialise(), load() or store_weights(). Calls install_allocators(). `context` and `optimizer`
  // must outlive this. order: see ChunkFetcher.
  ChunkEngine(nn::ParameterList parameters, const ParallelContext& context,
              const optim::Optimizer& optimizer, const ChunkOptions& options,
              const OrderOfStages& order = {});
  // For a model that is not trained: freezes its parameters.
  ChunkEngine(nn::ParameterList parameters, const ParallelContext& context,
              const ChunkOptions& options, const OrderOfStages& order = {});
  ~ChunkEngine() override;
  ChunkEngine(const ChunkEngine&) = delete;
  ChunkEngine& operator=(const ChunkEngine&) = delete;

  // Initialises masters and working weights with the parameters' initializers. also_frozen: frozen
  // parameters too. Each rank initialises its shards; ranks that hold whole chunks then gather
  // them. Collective.
  void initialise(uint64_t seed, bool also_frozen = true);
  // Writes `values` (n numbers, flat, any floating-point dtype) to elements [begin, begin + n) of
  // the flattened global parameter, as far as this rank holds them: to working weights, and to
  // masters. A packed weight must be given whole, in host memory; the call is then collective as
  // store_packed() is.
  void load(const nn::Parameter& parameter, int64_t begin, const at::Tensor& values);

  // For values read from files. kept_weights() and kept_state() return which elements of a
  // parameter this rank stores; store_weights() and store_state() write flat values of any
  // floating-point dtype from element `begin` on. store_weights() writes working weights and
  // masters. Elements are counted in this rank's tensor-parallel shard (Parameter::for_each_run).
  // state: index in Optimizer::state_names().
  Range kept_weights(const nn::Parameter& parameter) const;
  Range kept_state(const nn::Parameter& parameter) const;
  void store_weights(const nn::Parameter& parameter, int64_t begin, const at::Tensor& values);
  void store_state(const nn::Parameter& parameter, size_t state, int64_t begin,
                   const at::Tensor& values);
  // Packs and stores the values of a packed weight. values: this rank's whole tensor-parallel
  // shard, [local_shape()], of any floating-point dtype, in host memory. Collective over the ranks
  // of tp; for a stack of experts, over the ranks that share the experts. Law: an all-reduce of one
  // number for each block of the weight.
  void store_packed(const nn::Parameter& parameter, const at::Tensor& values);

  void begin_step();
  // Called around the passes of a stage over a micro-batch; passes do not overlap. If the backward
  // pass directly follows the forward pass: begin_micro_batch, forward, begin_backward, backward,
  // end_backward. Otherwise: begin_forward, forward, end_forward, and later begin_backward,
  // backward, end_backward. last: true for this stage's last backward pass of the step.
  void begin_micro_batch(int stage = 0) { fetcher_->begin_training(stage); }
  void begin_forward(int stage) { fetcher_->begin_forward(stage); }
  void end_forward() { fetcher_->end(); }
  void begin_backward(bool last, int stage = 0);
  void end_backward();
  // For a backward pass in two halves (ops/deferred_gradients.h), with other passes between them.
  // First half: begin_backward_input, the pass, end_backward_input; the weight gradients that it
  // computes are held back in `held`. Second half: begin_backward_weight, take(held), the
  // computation of the deferred weight gradients, end_backward.
  class HeldGradients {
   private:
    friend class ChunkEngine;
    struct Held {
      Chunk* chunk;
      size_t slot;
      bool tied;  // of the second layer that uses a tied table
      at::Tensor gradient;
    };
    std::vector<Held> held_;
  };
  void begin_backward_input(int stage, HeldGradients& held);
  void end_backward_input();
  void begin_backward_weight(bool last, int stage);
  void take(HeldGradients held);
  // Around a forward pass without a backward pass.
  void begin_evaluation(int stage = 0) { fetcher_->begin_evaluation(stage); }
  void end_evaluation() { fetcher_->end(); }
  // From now on the model only runs forward passes, any number of them, and its weights do not
  // change. The first weights of the next pass are fetched before the current pass ends. The order
  // of use must be known.
  void begin_inference() { fetcher_->begin_inference(); }

  // Whether any weights are transient, i.e. whole on the device only around their uses.
  bool weights_are_transient() const { return fetcher_->any_transient(); }
  // Most bytes of transient weights on the device at once during inference.
  int64_t fetched_peak_bytes() const { return fetcher_->inference_peak_bytes(); }
  // is_weight(): whether a tensor is a weight or a view of one. is_transient(): whether it is a
  // weight whose memory is released between uses.
  bool is_weight(const at::Tensor& tensor) const;
  bool is_transient(const at::Tensor& tensor) const;
  // before_use() fetches the weight if necessary and keeps it on the device until after_use();
  // use_in_node() likewise, at least until the running autograd node has ended.
  void before_use(const at::Tensor& weight) { fetcher_->before_use(chunk_of(weight)); }
  void after_use(const at::Tensor& weight) { fetcher_->after_use(chunk_of(weight)); }
  void use_in_node(const at::Tensor& weight) { fetcher_->use_in_node(chunk_of(weight)); }
  // The order in which each stage's last passes used transient chunks.
  const OrderOfStages& order_of_use() const { return fetcher_->recorded(); }
  void finish_reduction();  // waits until gradients are summed over the ranks that share them

  // Call after finish_reduction. Returns the sum of squares, unscaled, of this rank's part of the
  // gradients; each trained element of the model is in exactly one rank's part. Not finite if any
  // gradient in the part is not finite.
  double squared_gradient_norm() const;
  // For each parameter, in the order of parameters(): 1 if it has a gradient on this rank in this
  // step, else 0.
  std::vector<double> used() const;
  // Name of the first parameter with a non-finite gradient in this rank's part; "" if there is
  // none.
  std::string first_non_finite_gradient() const;

  struct Update {
    double learning_rate = 0;
    double weight_decay = 0;
    double gradient_scale = 1;  // factor of the gradients
  };
  // Updates the parameters that had a gradient on any rank; all others are unchanged.
  // used_anywhere: the maximum of used() over ranks. Weight decay applies only to parameters of two
  // or more dimensions. Throws IoError if the disk fails. Collective.
  void update(const Update& update, const std::vector<bool>& used_anywhere);

  // Waits for all communication and writes in progress. Afterwards every working weight is up to
  // date, and whole unless weights are sharded.
  void synchronize();

  // parameters(): those of all stages. is_here(): whether this rank holds any part of a parameter.
  const nn::ParameterList& parameters() const { return parameters_; }
  bool is_here(const nn::Parameter& parameter) const { return places_.contains(&parameter); }
  const ChunkOptions& options() const { return options_; }
  // Only for a model that is trained.
  const optim::Optimizer& optimizer() const { return *optimizer_; }

  // How often each tensor was updated, in the order of parameters(); the row blocks of a table have
  // one count. Part of the optimizer state.
  std::vector<int64_t> update_counts() const;
  void set_update_counts(const std::vector<int64_t>& counts);

  // Visits every range of elements that this rank writes to a checkpoint. Over all ranks, the
  // ranges cover the model exactly once, except packed weights, which are not written. With
  // `parameter`, visits only its elements.
  void for_each_checkpoint_shard(const std::function<void(const OwnedShard&)>& visit) const;
  void for_each_checkpoint_shard(const nn::Parameter& parameter,
                                 const std::function<void(const OwnedShard&)>& visit) const;

  struct StateBytes {
    int64_t parameters = 0;
    int64_t gradients = 0;
    int64_t optimizer = 0;  // masters, unless weights serve as masters, and optimizer states
    int64_t total() const { return parameters + gradients + optimizer; }
  };
  // Returns the bytes of this rank that are stored in a tier. Whole gradients on the device count
  // even while they have no memory.
  StateBytes state_bytes(Tier tier) const;

  // Bytes moved to and from tiers other than the device since construction.
  const TierPools::Traffic& tier_traffic() const { return memory_.pools.traffic(); }
  // Bytes stored in a tier other than the device, at the peak of their total since the step began.
  const BytesByKind& at_rest(Tier tier) const { return memory_.pools.at_rest(tier); }
  TierPools& tier_pools() { return memory_.pools; }

 private:
  class GradientHook;

  ChunkEngine(nn::ParameterList parameters, const ParallelContext& context,
              const optim::Optimizer* optimizer, const ChunkOptions& options,
              const OrderOfStages& order);
  void before_use(nn::Parameter& parameter) override;
  void before_use_of(nn::Parameter& parameter, const std::vector<int64_t>& counts) override;
  void after_use(nn::Parameter& parameter) override;
  int chunk_of(const at::Tensor& weight) const {
    return storages_.at(weight.storage().unsafeGetStorageImpl());
  }
  // Returns the elements of `in_chunk` that are the parameter's, counted within the parameter.
  Range kept_of(const nn::Parameter& parameter, Range in_chunk) const;
  void pack_initial_values(const nn::Parameter& parameter, uint64_t seed);
  void attach(int index);
  // Returns this rank's stage whose backward passes complete the gradient of a parameter placed so;
  // -1 if only other ranks hold the parameter.
  int stage_here(const nn::Placement& placement) const;
  nn::ParameterList parameters_here() const;
  void expect_gradients(Chunk& chunk);
  bool reduces_now(const Chunk& chunk) const;  // in the running backward pass
  // tied: the gradient is that of the second layer that uses a tied table. leaf: the tensor whose
  // grad() it is.
  void collect_gradient(Chunk& chunk, size_t slot, bool tied, const at::Tensor& leaf);
  void take_gradient(Chunk& chunk, size_t slot, bool tied, at::Tensor gradient);
  void launch_ready_chunks();
  struct Launch {
    Chunk* chunk;
    bool tied;  // reduces only the tied layer's gradients; another launch reduces the others
    bool ready() const { return (tied ? chunk->pending_tied : chunk->pending) == 0; }
  };
  void launch(const Launch& next);
  void finish_oldest_reduction();
  std::vector<ChunkTiers> tiers_of(const std::vector<ChunkPlan>& plans) const;
  void visit_written(const Chunk& chunk, size_t slot,
                     const std::function<void(const OwnedShard&)>& visit) const;

  nn::ParameterList parameters_;
  const ParallelContext& context_;
  const comm::Group alone_;
  const optim::Optimizer* optimizer_;  // null if nothing is trained
  ChunkOptions options_;
  ChunkMemory memory_;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<Chunk*> trained_;  // the chunk used last is first
  // By stage, the reductions of a backward pass in their order: first those of tied gradients, then
  // all others, both in the order of trained_.
  std::map<int, std::vector<Launch>> launch_orders_;
  const std::vector<Launch>* launch_order_ = nullptr;  // of the running backward pass
  size_t launched_ = 0;                                // number of launches so far
  int stage_ = 0;                                      // of the running backward pass
  Chunk* launched_last_ = nullptr;                     // its reduction may have to be continued
  std::deque<Launch> reducing_;  // launched, transient gradients not released yet; oldest first
  std::unique_ptr<ChunkFetcher> fetcher_;
  bool last_pass_ = false;
  HeldGradients* held_ = nullptr;  // where this pass holds back gradients; null: it does not
  std::unordered_map<const nn::Parameter*, int64_t> updates_;  // number of updates so far

  struct Place {
    Chunk* chunk;
    size_t slot;
    int index;  // of the chunk
  };
  std::unordered_map<const nn::Parameter*, Place> places_;
  std::unordered_map<const c10::StorageImpl*, int> storages_;  // of weights: index of the chunk
};

}  // namespace colossal::memory
