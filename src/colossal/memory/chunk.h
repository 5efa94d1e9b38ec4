// A chunk: a flat buffer of parameters, with this rank's part of their gradients and optimizer
// state. Sharded tensors are divided into equal shards over the ranks that hold the same
// parameters. Tensors that are sharded or offloaded are whole on the device only temporarily.
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
  at::ScalarType working = at::kFloat;   // dtype in which the model computes
  at::ScalarType master = at::kFloat;    // dtype of the update; equal to working: one copy
  at::ScalarType gradient = at::kFloat;  // dtype of accumulation and communication
  int64_t chunk_bytes = int64_t{16} << 20;
  // For ZeRO stages 2 and 3 with several micro-batches. false: gradients are reduced after each
  // micro-batch and accumulated in the shards. true: gradients are accumulated whole and reduced
  // after the last micro-batch, with less traffic and more memory.
  bool reduce_once_per_step = false;
  // Most bytes of transient weights on the device at once: the chunk in use and the chunks fetched
  // ahead. The next chunk is fetched ahead even if it exceeds the limit. For weights on NVMe, reads
  // of another half as many bytes are in progress.
  int64_t window_bytes = int64_t{48} << 20;
  // true if the model reads weights through parameter handles; the next forward pass then waits for
  // each chunk when it is first used. false for a user's own torch module: update() returns when
  // all weights are on the device.
  bool uses_parameter_handles = true;
  Tiers tiers;
};

// The tiers in which a chunk's tensors are stored.
struct ChunkTiers {
  Tier parameters = Tier::device;
  Tier gradients = Tier::device;
  Tier optimizer = Tier::device;
};

// The ranks that hold the same elements and see different data.
struct ChunkRanks {
  const comm::Group& shards;    // ranks that divide what is sharded
  const comm::Group& replicas;  // ranks with the same shard in other shard groups
  // The ranks at both ends of the pipeline if they share a tied table, else this rank alone. The
  // table's gradients are summed over these ranks after the step's last micro-batch.
  const comm::Group& ends;
};

// Shared by all chunks of a rank.
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
  const Range shard;          // this rank's shard of the buffer
  const Range held;  // elements whose masters, state and reduced gradients this rank holds: the
                     // shard; with ZeRO stage 0 the whole buffer
  const int stage;   // pipeline stage whose backward passes complete the gradients
  const Range part;  // this rank's part of the shard, divided over ranks.replicas: written to
                     // checkpoints and counted in norms by this rank

  struct SlotState {
    bool written = false;  // has a gradient in this step
    bool summed = false;   // the whole buffer has that gradient
    // Gradients of the micro-batch that are still missing: of the first layer, and of the tied
    // layer.
    bool pending = false, pending_tied = false;
  };
  std::vector<SlotState> slots;
  size_t pending = 0, pending_tied = 0;  // number of slots with a missing gradient

  int64_t numel() const { return plan.numel; }
  Range range_of(size_t slot) const {
    return {plan.slots[slot].offset, plan.slots[slot].offset + plan.slots[slot].numel};
  }
  // Whether weights leave the device between uses, because they are sharded or offloaded.
  bool weights_are_transient() const { return whole_weights_ != nullptr; }
  bool gradients_are_transient() const {
    return gradients_sharded_ || tiers_.gradients != Tier::device;
  }
  const ChunkTiers& tiers() const { return tiers_; }

  // [numel]. Transient weights have memory only while they are on the device. Gradients have memory
  // only from a step's first gradient until the next step begins, even if they are not offloaded,
  // so that they take none while activations grow.
  const at::Tensor& whole_weights() const { return weights_here_; }
  const at::Tensor& whole_gradients() const { return gradients_here_; }

  // The stored tensors. If the dtypes are equal, weights() and master() are the same tensor. Frozen
  // chunks have no masters, gradients or state.
  StoredTensor& weights() const { return *weights_; }
  StoredTensor& master() const { return *master_; }
  StoredTensor& gradients() const { return *gradients_; }
  const std::vector<std::unique_ptr<StoredTensor>>& state() const { return state_; }
  bool has_own_masters() const { return own_master_ != nullptr; }

  // Stores elements from `offset` on in weights and masters, as far as this rank holds them.
  void store(int64_t offset, const at::Tensor& values);
  // Called after this rank's part was stored: gathers the parts of the other ranks, if this rank
  // holds them too.
  void gather_stored();

  // For transient weights. fetch() begins to fetch the whole weights, wait_for_weights() waits for
  // them; release_weights() takes effect when the last use ends. Weights on NVMe are loaded to the
  // host in spans: begin_load() begins the next span and returns its bytes, or 0 if there is none.
  // fetch() consumes these spans, begins the remaining ones, and calls `arrived` after each.
  int64_t begin_load();
  int64_t loading_bytes() const;  // begun, not fetched yet
  void fetch(const std::function<void()>& arrived);
  void wait_for_weights() { gather_.wait(); }
  // Whether the chunk has only stacks of experts, not sharded and offloaded. Then fetch_when_used()
  // may replace fetch(). It fetches nothing; fetch_experts() fetches the experts of a slot with
  // counts[expert] > 0 that are not on the device yet, and fetch_all() fetches the whole chunk.
  // After a fetch(), both do nothing.
  bool can_fetch_experts() const;
  void fetch_when_used();
  void fetch_experts(size_t slot, const std::vector<int64_t>& counts);
  void fetch_all();
  // Allocates the whole weights, without values, until release_weights().
  void take_weights();
  void release_weights();
  void begin_use() { ++uses_; }
  void end_use();
  bool wanted() const { return wanted_; }

  // take_gradients() allocates the whole gradients. begin_reduction() writes zeros into gaps, and
  // into slots without a gradient on this rank, because another rank may have one. After
  // finish_reduction(), gradients() has the sums over ranks and over the micro-batches so far.
  // continue_reduction() waits for the sum over the shard group and begins the sum over
  // ranks.replicas.
  void take_gradients();
  // Takes over the memory of `gradient`, which its owner is about to release. Succeeds only if
  // `gradient` is the chunk's entire gradient, is alone in its memory, and is the first of the
  // step. Returns false otherwise; the gradient must then be copied.
  bool adopt_gradient(const at::Tensor& gradient);
  void begin_reduction();
  void continue_reduction();
  void finish_reduction(bool last);
  // Called after the last reduction: sums over both ends of the pipeline. Collective over
  // ranks.ends.
  void sum_over_ends();
  bool reduces_each_micro_batch() const { return gradients_sharded_; }
  // Whether the tied layer's gradients of a tied table are reduced separately, so that they need
  // not be kept whole until the first layer adds its own. True for row blocks of a table that are
  // sharded or offloaded: whole, the table would be too large.
  bool reduces_tied_apart() const;
  void forget_gradients();  // at the beginning of a step
  // Returns the squared norm of this rank's part, after the last reduction.
  double squared_gradient_norm() const;

  // ZeRO stages 1 and 2: updated shards are all-gathered, and stored in the weights' tier.
  bool gathers_updates() const {
    return !weights_sharded_ && ranks.shards.size() > 1 && state_sharded_;
  }
  // The tensor to which an update writes the weights. It covers at least the elements `held`.
  StoredTensor& updated_weights();
  void begin_weight_gather();  // at stage 3 also part of fetch()
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
  // Returns the sum of squares of those elements of a span that this rank counts in the norm.
  double counted_squares(const Range& span, const at::Tensor& sums) const;
  std::vector<Range> sum_spans() const;

  ChunkMemory& memory_;
  ChunkTiers tiers_;
  bool state_sharded_, gradients_sharded_, weights_sharded_;
  at::Tensor weights_here_, gradients_here_;        // [numel]
  std::unique_ptr<TransientTensor> whole_weights_;  // set if weights are transient
  std::unique_ptr<TransientTensor> whole_gradients_;
  std::unique_ptr<TransientTensor>
      kept_gradients_;  // reduced gradients stored on the device, if gradients are transient
  std::unique_ptr<StoredTensor> weights_, own_master_, gradients_;
  std::unique_ptr<StoredTensor> weights_on_device_;  // whole_weights(), while updates are gathered
  StoredTensor* master_ = nullptr;
  std::vector<std::unique_ptr<StoredTensor>> state_;

  std::deque<TierTransfer> loads_;  // of the next or current fetch, in order
  int64_t load_begun_ = 0;          // number of elements of weights() in loads begun for that fetch
  // For each slot, which experts are on the device after fetch_when_used(). Empty after a fetch().
  std::vector<std::vector<bool>> brought_;
  comm::Work gather_;  // of weights
  int uses_ = 0;       // number of current uses
  bool wanted_ = false;

  comm::Work reduction_;
  bool sums_shards_ = false;            // reduction_ is still over the shard group
  bool reduced_ = false;                // gradients() has sums of this step
  std::optional<double> squared_norm_;  // of transient gradients
};

}  // namespace colossal::memory
