// Owns the bytes of a model's parameters, gradients and optimizer state, shards them as the ZeRO
// stage says (Rajbhandari et al. 2020) and reduces gradients while backward goes on.
//
//   stage 0   every rank holds and updates everything; gradients are all-reduced
//   stage 1   a rank holds masters and moments of its part of each chunk, and updates that part:
//             gradients are reduce-scattered, updated weights all-gathered
//   stage 2   gradients too are here in part: whole from the first of a chunk to its reduction, at
//             each micro-batch (ChunkOptions::reduce_once_per_step: at the last)
//   stage 3   and weights: gathered ahead of their uses, forward and backward, see fetch_plan.h
//
// With Strategy::zero_group parts are of the ranks of such a group, which alone gather; gradients
// are reduce-scattered there and then all-reduced over the groups.
//
// A step is: begin_step; for each micro-batch and each stage of the pipeline here a forward and a
// backward pass, in any order that the pipeline has; finish_reduction; then update or discard. In
// each backward pass gradients leave chunk by chunk in one fixed order that is equal on all ranks
// of a stage: reverse order of use. Chunks of tied blocks of rows leave twice where they go away:
// with what the last layer made of them, and with the first layer's. Parameters of other stages are
// listed, so that all ranks count alike, and hold nothing here.
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

// A run of one parameter's elements that this rank holds: what checkpoints write. Tensors
// are one-dimensional and of equal length: views where they rest in memory, copies of what is on
// NVMe.
struct OwnedShard {
  const nn::Parameter* parameter = nullptr;
  Range elements;  // of the flattened global parameter
  const Chunk* chunk = nullptr;
  Range in_chunk;  // the same elements there

  at::Tensor working() const { return chunk->weights().read(in_chunk); }  // in the compute type
  // The working weights where these are their own masters.
  at::Tensor master() const;
  // Summed over ranks, from finish_reduction until the next step begins; a frozen parameter has
  // none.
  at::Tensor gradient() const;
  // The optimizer's, as it names them.
  size_t num_states() const { return chunk->state().size(); }
  at::Tensor state(size_t index) const { return chunk->state()[index]->read(in_chunk); }
};

class ChunkEngine : private nn::Residency {
 public:
  // Takes over the parameters: gives each its storage. Calls install_allocators(). `context` and
  // `optimizer` must outlive this. `order`: see ChunkFetcher.
  ChunkEngine(nn::ParameterList parameters, const ParallelContext& context,
              const optim::Optimizer& optimizer, const ChunkOptions& options,
              const OrderOfStages& order = {});
  // The same for a model that is not trained: freezes its parameters.
  ChunkEngine(nn::ParameterList parameters, const ParallelContext& context,
              const ChunkOptions& options, const OrderOfStages& order = {});
  ~ChunkEngine() override;
  ChunkEngine(const ChunkEngine&) = delete;
  ChunkEngine& operator=(const ChunkEngine&) = delete;

  // Makes masters and working weights by the initializers. also_frozen: of frozen parameters too.
  // Each rank makes its part, then all are gathered.
  void initialise(uint64_t seed, bool also_frozen = true);
  // Writes `values` (flat, any float type) as elements [begin, begin + size) of a parameter, as far
  // as these are here: working weights, and masters where this rank holds them.
  void load(const nn::Parameter& parameter, int64_t begin, const at::Tensor& values);

  // For values read from files. kept_..() return the elements that this rank keeps, store_..()
  // store flat values of any float type from `begin` on. Elements are counted as they lie here
  // (Parameter::for_each_run).
  Range kept_weights(const nn::Parameter& parameter) const;
  Range kept_state(const nn::Parameter& parameter) const;
  void store_weights(const nn::Parameter& parameter, int64_t begin, const at::Tensor& values);
  void store_state(const nn::Parameter& parameter, size_t state, int64_t begin,
                   const at::Tensor& values);
  // Packs the numbers of a packed weight, all that are here of them: [local_shape()], any float
  // type and device of the host. Collective over the ranks of parallel.tp. Law: an all-reduce of a
  // number for each block of the weight.
  void store_packed(const nn::Parameter& parameter, const at::Tensor& values);

  void begin_step();
  // Passes of a stage over a micro-batch, one at a time. Those of one micro-batch in a row:
  // begin_micro_batch, forward, begin_backward, backward, end_backward; apart: begin_forward,
  // forward, end_forward, and later begin_backward, backward, end_backward. last: of the step's
  // backward passes of this stage.
  void begin_micro_batch(int stage = 0) { fetcher_->begin_training(stage); }
  void begin_forward(int stage) { fetcher_->begin_forward(stage); }
  void end_forward() { fetcher_->end(); }
  void begin_backward(bool last, int stage = 0);
  void end_backward();
  // A backward pass in two halves (ops/put_off_gradients.h), between which other passes may come.
  // The gradients of weights that the first half makes are held back. The second half takes them
  // with take(), and makes those that were put off.
  class HeldGradients {
   private:
    friend class ChunkEngine;
    struct Held {
      Chunk* chunk;
      size_t slot;
      bool tied;
      at::Tensor gradient;
    };
    std::vector<Held> held_;
  };
  void begin_backward_input(int stage, HeldGradients& held);
  void end_backward_input();
  void begin_backward_weight(bool last, int stage);
  void take(HeldGradients held);
  // Around a forward pass that has no backward pass.
  void begin_evaluation(int stage = 0) { fetcher_->begin_evaluation(stage); }
  void end_evaluation() { fetcher_->end(); }
  // From here on the model runs forward only, any number of times, and its weights do not change.
  // Weights of the next pass are fetched before one has ended.
  void begin_inference() { fetcher_->begin_inference(); }

  // Whether any weights are transient: here for their uses only.
  bool weights_are_transient() const { return fetcher_->any_transient(); }
  // Most bytes of these that inference has on the device at once.
  int64_t fetched_peak_bytes() const { return fetcher_->inference_peak_bytes(); }
  // Whether a tensor is a weight or a view of one; whether its memory may be released between uses.
  bool is_weight(const at::Tensor& tensor) const;
  bool is_transient(const at::Tensor& tensor) const;
  // Keeps its memory here until after_use(), or until the running autograd node has ended.
  void before_use(const at::Tensor& weight) { fetcher_->before_use(chunk_of(weight)); }
  void after_use(const at::Tensor& weight) { fetcher_->after_use(chunk_of(weight)); }
  void use_in_node(const at::Tensor& weight) { fetcher_->use_in_node(chunk_of(weight)); }
  // Of the passes that ran last.
  const OrderOfStages& order_of_use() const { return fetcher_->recorded(); }
  void finish_reduction();  // waits until gradients are summed over the ranks that share them

  // After finish_reduction. Squares of this rank's part of the gradients (each element of the model
  // in one rank's part only), unscaled; non-finite if any of them is.
  double squared_gradient_norm() const;
  // Whether the parameter had a gradient here in this step, in order of parameters().
  std::vector<double> used() const;
  // Name of the first parameter with a non-finite gradient in this rank's part; empty: none.
  std::string first_non_finite_gradient() const;

  struct Update {
    double learning_rate = 0;
    double weight_decay = 0;
    double gradient_scale = 1;
  };
  // Updates what was used on any rank, leaves the rest untouched.
  void update(const Update& update, const std::vector<bool>& used_anywhere);

  // Waits for everything under way: after it, every working weight is current, and whole unless
  // weights are sharded.
  void synchronize();

  // The parameters of all stages; whether this rank holds any of one.
  const nn::ParameterList& parameters() const { return parameters_; }
  bool is_here(const nn::Parameter& parameter) const { return places_.contains(&parameter); }
  const ChunkOptions& options() const { return options_; }
  // Only for a model that is trained.
  const optim::Optimizer& optimizer() const { return *optimizer_; }

  // How often each tensor was updated, in order of parameters(): part of the optimizer's state.
  std::vector<int64_t> update_counts() const;
  void set_update_counts(const std::vector<int64_t>& counts);

  // Every run of elements that this rank alone writes to a checkpoint; over all ranks they cover
  // the model once.
  void for_each_checkpoint_shard(const std::function<void(const OwnedShard&)>& visit) const;
  void for_each_checkpoint_shard(const nn::Parameter& parameter,
                                 const std::function<void(const OwnedShard&)>& visit) const;

  struct StateBytes {
    int64_t parameters = 0;
    int64_t gradients = 0;
    int64_t optimizer = 0;
    int64_t total() const { return parameters + gradients + optimizer; }
  };
  // Returns the bytes that rest in a tier.
  StateBytes state_bytes(Tier tier) const;

  // What went to and came from tiers other than the device.
  const TierPools::Traffic& tier_traffic() const { return memory_.pools.traffic(); }
  // What rested there when most did, since the step began.
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
  Range kept_of(const nn::Parameter& parameter, Range in_chunk) const;
  void pack_initial_values(const nn::Parameter& parameter, uint64_t seed);
  void attach(int index);
  int stage_here(const nn::Placement& placement) const;
  nn::ParameterList parameters_here() const;
  void expect_gradients(Chunk& chunk);
  bool reduces_now(const Chunk& chunk) const;
  void collect_gradient(Chunk& chunk, size_t slot, bool tied, const at::Tensor& leaf);
  void take_gradient(Chunk& chunk, size_t slot, bool tied, at::Tensor gradient);
  void launch_ready_chunks();
  struct Launch {
    Chunk* chunk;
    bool tied;  // of gradients of what is tied alone, and others follow
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
  const optim::Optimizer* optimizer_;  // null: nothing is trained
  ChunkOptions options_;
  ChunkMemory memory_;
  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::vector<Chunk*> trained_;  // last used first
  // By stage: the tied ones first, each in order of trained_.
  std::map<int, std::vector<Launch>> launch_orders_;
  const std::vector<Launch>* launch_order_ = nullptr;  // of the backward pass that runs
  size_t launched_ = 0;                                // of it
  int stage_ = 0;                                      // whose backward pass runs
  Chunk* launched_last_ = nullptr;                     // whose reduction may be to be continued
  std::deque<Launch> reducing_;  // whose whole gradients wait to be let go, oldest first
  std::unique_ptr<ChunkFetcher> fetcher_;
  bool last_pass_ = false;
  HeldGradients* held_ = nullptr;  // where gradients of this pass are held back
  std::unordered_map<const nn::Parameter*, int64_t> updates_;

  struct Place {
    Chunk* chunk;
    size_t slot;
    int index;  // of the chunk
  };
  std::unordered_map<const nn::Parameter*, Place> places_;
  std::unordered_map<const c10::StorageImpl*, int> storages_;  // of weights: chunk of each
};

}  // namespace colossal::memory
