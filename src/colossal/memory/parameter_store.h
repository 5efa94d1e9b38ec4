// ParameterStore: a model's weights, gradients and optimizer state on a rank, in chunks. It places
// them, reads and writes their values, and says which of them this rank writes to checkpoints;
// ChunkEngine runs steps on them.
//
// parameters() also lists the parameters of pipeline stages on other ranks, so that the list is the
// same on all ranks; this rank stores nothing for these. Not thread-safe.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "colossal/memory/chunk.h"
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

class ParameterStore {
 public:
  struct StateBytes {
    int64_t parameters = 0;
    int64_t gradients = 0;
    int64_t optimizer = 0;  // optimizer states, and masters unless weights serve as masters
    int64_t total() const { return parameters + gradients + optimizer; }
  };

  // Takes over the parameters and allocates their storage: each Parameter::tensor becomes a view of
  // its chunk. Tensors that were already defined keep their values; the values of all others must
  // then be set by initialise(), load(), store_weights() or store_packed(). Calls
  // install_allocators() (memory_ledger.h). `context` must outlive this. optimizers: choose the
  // optimizer of each parameter; null if nothing is trained. Throws IoError if the file on NVMe
  // cannot be created or host memory cannot be allocated.
  ParameterStore(nn::ParameterList parameters, const ParallelContext& context,
                 std::shared_ptr<const optim::ParameterGroups> optimizers,
                 const ChunkOptions& options);
  ParameterStore(const ParameterStore&) = delete;
  ParameterStore& operator=(const ParameterStore&) = delete;

  // The parameters of all stages, also of stages on other ranks.
  const nn::ParameterList& parameters() const { return parameters_; }
  // Returns whether this rank holds any part of `parameter`.
  bool is_here(const nn::Parameter& parameter) const { return places_.contains(&parameter); }
  const ChunkOptions& options() const { return options_; }
  // The argument of the constructor. Only for a model that is trained.
  const optim::ParameterGroups& optimizers() const { return *optimizers_; }
  // Returns the optimizer of a parameter; null if it is not trained.
  const optim::Optimizer* optimizer_of(const nn::Parameter& parameter) const;

  // is_weight() returns whether `tensor` is a weight, or a view of a weight. is_transient() returns
  // whether `tensor` is a transient weight, or a view of one.
  bool is_weight(const at::Tensor& tensor) const;
  bool is_transient(const at::Tensor& tensor) const;

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

  // Visits every range of elements that this rank writes to a checkpoint. Over all ranks, the
  // ranges cover the model exactly once, except packed weights, which are not written. With
  // `parameter`, visits only the elements of that parameter.
  void for_each_checkpoint_shard(const std::function<void(const OwnedShard&)>& visit) const;
  void for_each_checkpoint_shard(const nn::Parameter& parameter,
                                 const std::function<void(const OwnedShard&)>& visit) const;

  // Returns the bytes moved to and from tiers other than the device since construction.
  const TierPools::Traffic& tier_traffic() const { return memory_.pools.traffic(); }
  // Returns, by kind, the bytes that a tier other than the device stored when it stored the most
  // since the last begin_step() (before the first: since construction).
  const BytesByKind& at_rest(Tier tier) const { return memory_.pools.at_rest(tier); }
  // This rank's memory in the tiers other than the device (tiers.h).
  TierPools& tier_pools() { return memory_.pools; }

 protected:
  struct Place {
    Chunk* chunk;
    size_t slot;
    int index;  // index of the chunk in chunks()
  };

  ~ParameterStore() = default;

  // Null if nothing is trained.
  const optim::ParameterGroups* parameter_groups() const { return optimizers_.get(); }
  ChunkMemory& chunk_memory() { return memory_; }
  // The chunks of this rank, in the order in which the model uses them; of these, those that are
  // not frozen.
  const std::vector<Chunk*>& chunks() const { return all_; }
  const std::vector<Chunk*>& trained_chunks() const { return trained_; }
  const Place& place_of(const nn::Parameter& parameter) const { return places_.at(&parameter); }
  // Returns the index of the chunk of a tensor for which is_weight() is true.
  int chunk_of(const at::Tensor& weight) const {
    return storages_.at(weight.storage().unsafeGetStorageImpl());
  }
  // Returns the bytes in `tier` of what the chunks store between uses. Gradients on the device are
  // included even while they have no memory.
  StateBytes chunk_bytes(Tier tier) const;

 private:
  // Returns the elements of `parameter` that lie in the range `in_chunk` of its chunk's buffer, as
  // indices in this rank's flattened tensor-parallel shard. Empty if none lies there.
  Range kept_of(const nn::Parameter& parameter, Range in_chunk) const;
  void pack_initial_values(const nn::Parameter& parameter, uint64_t seed);
  // Makes the parameters of a chunk views of its buffer.
  void attach(int index);
  // Returns this rank's stage whose backward passes complete the gradient of a parameter with this
  // placement; -1 if only other ranks hold the parameter.
  int stage_here(const nn::Placement& placement) const;
  nn::ParameterList parameters_here() const;  // those of which this rank holds a part
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
  std::vector<std::unique_ptr<Chunk>> owned_;
  std::vector<Chunk*> all_, trained_;
  std::unordered_map<const nn::Parameter*, Place> places_;
  std::unordered_map<const c10::StorageImpl*, int> storages_;  // weights' storage: index of chunk
};

}  // namespace colossal::memory
