// A chunk: a flat buffer of parameters with their gradients and optimizer state, as far as these
// are here. What is sharded is cut into equal parts over ranks that hold the same parameters; what
// is sharded or rests off the device is whole and on the device for a while only.
#pragma once

#include <ATen/core/Tensor.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "colossal/comm/group.h"
#include "colossal/layout/partition.h"
#include "colossal/memory/chunk_plan.h"
#include "colossal/memory/stored_tensor.h"
#include "colossal/memory/transient_tensor.h"

namespace colossal::memory {

struct ChunkOptions {
  at::ScalarType working = at::kFloat;   // what the model computes with
  at::ScalarType master = at::kFloat;    // what is updated; equal to working: one copy serves both
  at::ScalarType gradient = at::kFloat;  // accumulates and travels in this type
  int64_t chunk_bytes = int64_t{16} << 20;
  // Stages 2 and 3, with several micro-batches. false: gradients are reduced at each and summed in
  // the parts. true: they are summed whole and reduced at the last: less traffic, more memory.
  bool reduce_once_per_step = false;
  // How much of transient weights is here at once: the chunk in use and those fetched ahead, the
  // next one in any case. From NVMe half as much again is on its way.
  int64_t window_bytes = int64_t{48} << 20;
  // The model reads weights through handles, so that the next forward waits for each chunk as it
  // comes to it. A foreign module does not: update() returns when all weights are here.
  bool uses_parameter_handles = true;
  Tiers tiers;
};

// Where a chunk's tensors rest.
struct ChunkTiers {
  Tier parameters = Tier::device;
  Tier gradients = Tier::device;
  Tier optimizer = Tier::device;
};

// The ranks that hold the same elements and see other data.
struct ChunkRanks {
  const comm::Group& shards;    // divide what is sharded
  const comm::Group& replicas;  // hold the same shard in other such groups
  // The ranks at both ends of the pipeline, if they hold a tied table. Its gradients are summed
  // over them when the step's last micro-batch has passed both ends.
  const comm::Group& ends;
};

// What the chunks of a rank share.
struct ChunkMemory {
  ChunkMemory(at::Device device, const std::string& nvme_path);

  TierPools pools;
  WritesUnderWay gradient_writes;
};

class Chunk {
 public:
  Chunk(ChunkPlan made, int stage, const ChunkRanks& ranks, const ChunkOptions& options, int zero,
        const ChunkTiers& tiers, size_t num_states, ChunkMemory& memory);

  const ChunkPlan plan;
  const ChunkRanks ranks;
  const Partition partition;  // of the buffer over ranks.shards
  const Range shard;          // this rank's part of it
  const Range held;           // whose masters, state and sums of gradients are here: the shard, or
                              // at stage 0 everything
  const int stage;            // of the pipeline, whose backward passes its gradients follow
  const Range part;           // of the shard, cut over ranks.replicas: this rank writes it to
                              // checkpoints and counts it in norms

  struct SlotState {
    bool written = false;  // had a gradient in this step
    bool summed = false;   // ... which the whole buffer holds
    // Whether gradients of the micro-batch are still to come: the first layer's, and the tied
    // layer's.
    bool pending = false, pending_tied = false;
  };
  std::vector<SlotState> slots;
  size_t pending = 0, pending_tied = 0;  // how many of all slots

  int64_t numel() const { return plan.numel; }
  Range range_of(size_t slot) const {
    return {plan.slots[slot].offset, plan.slots[slot].offset + plan.slots[slot].numel};
  }
  // Whether weights leave between uses: they are sharded, or rest off the device.
  bool weights_are_transient() const { return whole_weights_ != nullptr; }
  bool gradients_are_transient() const {
    return gradients_sharded_ || tiers_.gradients != Tier::device;
  }
  const ChunkTiers& tiers() const { return tiers_; }

  // [numel]. Transient weights have memory only while they are here. Gradients, also those that
  // rest on the device, have memory from a step's first gradient until the next step begins: none
  // while activations grow.
  const at::Tensor& whole_weights() const { return weights_here_; }
  const at::Tensor& whole_gradients() const { return gradients_here_; }

  // What is at rest. Weights are their own masters if the types are equal; frozen chunks have
  // neither masters nor gradients nor state.
  StoredTensor& weights() const { return *weights_; }
  StoredTensor& master() const { return *master_; }
  StoredTensor& gradients() const { return *gradients_; }
  const std::vector<std::unique_ptr<StoredTensor>>& state() const { return state_; }
  bool has_own_masters() const { return own_master_ != nullptr; }

  // Stores elements from `offset` on in weights and masters, as far as these are here.
  void store(int64_t offset, const at::Tensor& values);
  // Called after store() of this rank's part: gathers what other ranks stored, if it belongs here.
  void gather_stored();

  // For transient weights. fetch() begins to bring them, wait_for_weights() ends it;
  // release_weights() takes effect once no use keeps them. From NVMe they come to the host in
  // spans: begin_load() begins the next span and returns its bytes, or 0 if there is none. fetch()
  // takes these spans, begins the others, and calls `arrived` after each.
  int64_t begin_load();
  int64_t loading_bytes() const;  // begun, and not fetched
  void fetch(const std::function<void()>& arrived);
  void wait_for_weights() { gather_.wait(); }
  // Whether the chunk has nothing but stacks of experts, whole and off the device: then
  // fetch_when_used() may take the place of fetch(). It brings nothing; bring_experts() brings
  // those experts of a slot with counts[expert] > 0 that are not here yet, and bring_all() all of
  // the chunk. After a fetch() both do nothing.
  bool can_bring_experts() const;
  void fetch_when_used();
  void bring_experts(size_t slot, const std::vector<int64_t>& counts);
  void bring_all();
  // Gives them memory, without values, until release_weights().
  void take_weights();
  void release_weights();
  void begin_use() { ++uses_; }
  void end_use();
  bool wanted() const { return wanted_; }

  // take_gradients() gives gradients memory. The reduction puts zeros into gaps, and where no
  // operator gave a gradient but another rank may have one. It leaves in gradients() the sums over
  // ranks and over earlier micro-batches of this step; in its middle, sums of shards go on to their
  // replicas.
  void take_gradients();
  // Takes over `gradient`, which its owner is about to release, if it is all of the chunk's
  // gradients, alone in its memory and the first of the step. Returns false if it is not: then it
  // must be copied.
  bool adopt_gradient(const at::Tensor& gradient);
  void begin_reduction();
  void continue_reduction();
  void finish_reduction(bool last);
  // Called after the last reduction: sums over both ends of the pipeline. Collective over these.
  void sum_over_ends();
  bool reduces_each_micro_batch() const { return gradients_sharded_; }
  // Whether the gradients that the second layer makes of a tied table are reduced by themselves, so
  // that they need not stay here whole until the first layer adds its own. True for blocks of rows:
  // their tables are too large for that.
  bool reduces_tied_apart() const;
  void forget_gradients();  // at the beginning of a step
  // Returns that of this rank's part, after the last reduction.
  double squared_gradient_norm() const;

  // ZeRO stages 1 and 2: updated parts are gathered on all ranks, and go to where the weights rest.
  bool gathers_updates() const {
    return !weights_sharded_ && ranks.shards.size() > 1 && state_sharded_;
  }
  // Where an update of masters writes the weights; it covers elements `held` at least.
  StoredTensor& updated_weights();
  void begin_weight_gather();  // also a part of fetch(), at stage 3
  void finish_weight_gather();

  void wait_for_collectives();

 private:
  void bring(const Range& elements);
  at::Tensor shard_of_gradients() const {
    return gradients_here_.narrow(0, shard.begin, shard.size());
  }
  void zero_missing_gradients();
  void count_kept_sums();
  void keep_sums(bool last);
  // Of the sums of a span, the squares that this rank counts for the norm.
  double counted_squares(const Range& span, const at::Tensor& sums) const;
  std::vector<Range> sum_spans() const;

  ChunkMemory& memory_;
  ChunkTiers tiers_;
  bool state_sharded_, gradients_sharded_, weights_sharded_;
  at::Tensor weights_here_, gradients_here_;        // [numel]
  std::unique_ptr<TransientTensor> whole_weights_;  // set if they are transient
  std::unique_ptr<TransientTensor> whole_gradients_;
  std::unique_ptr<TransientTensor>
      kept_gradients_;  // sums at rest on the device, if gradients are transient
  std::unique_ptr<StoredTensor> weights_, own_master_, gradients_;
  std::unique_ptr<StoredTensor> weights_on_device_;  // whole_weights(), while they gather updates
  StoredTensor* master_ = nullptr;
  std::vector<std::unique_ptr<StoredTensor>> state_;

  std::deque<TierTransfer> loads_;  // of the fetch that is to come, or goes on, in order
  int64_t load_begun_ = 0;          // elements of weights() whose load of it has begun
  // For each slot the experts that fetch_when_used() has brought; none after a fetch().
  std::vector<std::vector<bool>> brought_;
  comm::Work gather_;  // of weights
  int uses_ = 0;       // how many uses keep the whole weights here
  bool wanted_ = false;

  comm::Work reduction_;
  bool sums_shards_ = false;            // reduction_ is over the ranks of the shards as yet
  bool reduced_ = false;                // gradients() has sums of this step's micro-batches
  std::optional<double> squared_norm_;  // of gradients that have left
};

}  // namespace colossal::memory
