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
  // Of weights that go away: how much is here at once, the chunk in use and those ahead of it; the
  // next other one in any case. Off NVMe half as much again is on its way.
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
  const comm::Group& shards;    // share out what is sharded
  const comm::Group& replicas;  // ... as this rank's share is in other groups of such
  // Of a tied table, the other end of the pipeline, which holds it too: of several ranks, gradients
  // are summed over them when the step's last micro-batch is through both.
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
  const Range shard;          // this rank's of it
  const Range held;           // whose masters, state and sums of gradients are here: the shard, or
                              // at stage 0 everything
  const int stage;            // of the pipeline, whose backward passes its gradients follow
  const Range part;           // of the shard, cut over ranks.replicas: this rank writes it to
                              // checkpoints and counts it in norms

  struct SlotState {
    bool written = false;  // had a gradient in this step
    bool summed = false;   // ... which the whole buffer holds
    // Gradients of the micro-batch that are still to come: the first layer's, and the one's to
    // which it is tied.
    bool pending = false, pending_tied = false;
  };
  std::vector<SlotState> slots;
  size_t pending = 0, pending_tied = 0;  // how many of all slots

  int64_t numel() const { return plan.numel; }
  Range range_of(size_t slot) const {
    return {plan.slots[slot].offset, plan.slots[slot].offset + plan.slots[slot].numel};
  }
  // Whether these are away between uses: sharded, or at rest off the device.
  bool weights_are_transient() const { return whole_weights_ != nullptr; }
  bool gradients_are_transient() const {
    return gradients_sharded_ || tiers_.gradients != Tier::device;
  }
  const ChunkTiers& tiers() const { return tiers_; }

  // [numel]; with weights that go away there is memory behind it for a while only. Gradients, also
  // at rest on the device, have memory from a step's first until the next step begins: none while
  // activations grow.
  const at::Tensor& whole_weights() const { return weights_here_; }
  const at::Tensor& whole_gradients() const { return gradients_here_; }

  // What rests. Masters are the weights where these need no others; frozen chunks have neither
  // masters nor gradients nor state.
  StoredTensor& weights() const { return *weights_; }
  StoredTensor& master() const { return *master_; }
  StoredTensor& gradients() const { return *gradients_; }
  const std::vector<std::unique_ptr<StoredTensor>>& state() const { return state_; }
  bool has_own_masters() const { return own_master_ != nullptr; }

  // Elements from `offset` on: weights, and masters, as far as they are here.
  void store(int64_t offset, const at::Tensor& values);
  // After store() of this rank's part: what other ranks stored, where it is to be here.
  void gather_stored();

  // Of weights that go away. fetch() begins, wait_for_weights() ends; release_weights() is done as
  // soon as no use keeps them. Off NVMe they come to the host by spans: begin_load() begins the
  // next one of those to come and returns its bytes; 0: no other. fetch() takes them, begins what
  // was not, and calls `arrived` after each.
  int64_t begin_load();
  int64_t loading_bytes() const;  // begun, and not fetched
  void fetch(const std::function<void()>& arrived);
  void wait_for_weights() { gather_.wait(); }
  // Space for them until release_weights(), of no values.
  void take_weights();
  void release_weights();
  void begin_use() { ++uses_; }
  void end_use();
  bool wanted() const { return wanted_; }

  // Of gradients: space for them; zeros where no operator gave any, another rank may have some, and
  // in the gaps; their reduction, which leaves sums over ranks, and over earlier ones of this step,
  // in gradients(). Between its beginning and its end the sums of shards go on to their replicas.
  void take_gradients();
  // `gradient`, whose owner is about to let it go, becomes the whole gradients, where it is all of
  // them, alone in its memory and the first of the step. False where it is not: to be copied.
  bool adopt_gradient(const at::Tensor& gradient);
  void begin_reduction();
  void continue_reduction();
  void finish_reduction(bool last);
  // After the last of them: the sums over both ends of the pipeline. Collective over these.
  void sum_over_ends();
  bool reduces_each_micro_batch() const { return gradients_sharded_; }
  // Whether gradients of what is tied are reduced by themselves, so that they need not be here
  // whole from the end of the model, where they are made, to its beginning: of blocks of rows,
  // which are for tables that are too large for that.
  bool reduces_tied_apart() const;
  void forget_gradients();  // at the beginning of a step
  // Of this rank's part, after the last reduction.
  double squared_gradient_norm() const;

  // Stages 1 and 2: the updated parts to all ranks, and to where the weights rest.
  bool gathers_updates() const {
    return !weights_sharded_ && ranks.shards.size() > 1 && state_sharded_;
  }
  // What an update of masters writes weights to, [..] of elements `held` at least.
  StoredTensor& updated_weights();
  void begin_weight_gather();  // also a part of fetch(), at stage 3
  void finish_weight_gather();

  void wait_for_collectives();

 private:
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
  std::unique_ptr<TransientTensor> whole_weights_;  // where they go away
  std::unique_ptr<TransientTensor> whole_gradients_;
  std::unique_ptr<TransientTensor>
      kept_gradients_;  // sums at rest on the device, of those that go away
  std::unique_ptr<StoredTensor> weights_, own_master_, gradients_;
  std::unique_ptr<StoredTensor> weights_on_device_;  // whole_weights(), while they gather updates
  StoredTensor* master_ = nullptr;
  std::vector<std::unique_ptr<StoredTensor>> state_;

  std::deque<TierTransfer> loads_;  // of the fetch that is to come, or goes on, in order
  int64_t load_begun_ = 0;          // elements of weights() whose load of it has begun
  comm::Work gather_;               // of weights
  int uses_ = 0;                    // that keep the whole weights here
  bool wanted_ = false;

  comm::Work reduction_;
  bool sums_shards_ = false;            // reduction_ is over the ranks of the shards as yet
  bool reduced_ = false;                // gradients() has sums of this step's micro-batches
  std::optional<double> squared_norm_;  // of gradients that went away
};

}  // namespace colossal::memory
