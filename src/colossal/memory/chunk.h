// A chunk: a flat buffer of whole parameters, with the gradients and optimizer state that this rank
// holds of them. What ZeRO shards is divided evenly over the ranks of a shard group. Weights and
// gradients that are sharded or offloaded are whole on the device only temporarily.
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
  at::ScalarType master = at::kFloat;    // dtype of masters; equal to `working`: one copy of both
  at::ScalarType gradient = at::kFloat;  // dtype of accumulation and communication
  int64_t chunk_bytes = int64_t{16} << 20;  // of a chunk's weights on a rank: see plan_chunks()
  // For ZeRO stages 2 and 3 with several micro-batches per step. false: gradients are reduced after
  // each micro-batch and accumulated in the shards. true: gradients are accumulated whole and
  // reduced once, after the last micro-batch, with less traffic and more memory.
  bool reduce_once_per_step = false;
  // Limit on the bytes of transient weights on the device at once: the chunk in use and the chunks
  // fetched ahead. The next chunk is fetched ahead even if it exceeds the limit. If weights are on
  // NVMe, about half as many further bytes are being read into host memory.
  int64_t window_bytes = int64_t{48} << 20;
  // true if the model reads weights through parameter handles: ChunkEngine::update() may return
  // while updated weights are still being gathered, and the next forward pass waits for each chunk
  // at its first use. false for a user's own torch module: update() waits until all weights are
  // gathered.
  bool uses_parameter_handles = true;
  Tiers tiers;
};

// The tiers in which a chunk's tensors are stored.
struct ChunkTiers {
  Tier parameters = Tier::device;
  Tier gradients = Tier::device;
  Tier optimizer = Tier::device;
};

// The ranks over which a chunk's gradients are summed.
struct ChunkRanks {
  const comm::Group& shards;    // the shard group: ranks that divide what is sharded
  const comm::Group& replicas;  // ranks with the same shard in other shard groups
  // If the chunk belongs to a table that the pipeline's first and last stage both use (tied
  // embedding and head): the ranks with its two copies; else this rank alone. The table's gradients
  // are summed over these ranks after the step's last micro-batch.
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
  // stage: see the member. zero: the ZeRO stage. num_states: number of the optimizer's state
  // tensors (Optimizer::state_names()).
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
    bool written = false;  // has had a gradient on this rank in this step
    bool summed = false;   // ... that whole_gradients() has, not yet reduced
    // Whether the running backward pass has yet to produce the gradient of the layer that owns the
    // parameter (pending), and that of the second layer that uses a tied table (pending_tied).
    bool pending = false, pending_tied = false;
  };
  std::vector<SlotState> slots;
  // Number of gradients that the running backward pass has yet to produce: of both kinds, and of
  // tied layers only.
  size_t pending = 0, pending_tied = 0;

  int64_t numel() const { return plan.numel; }
  Range range_of(size_t slot) const {
    return {plan.slots[slot].offset, plan.slots[slot].offset + plan.slots[slot].numel};
  }
  // Whether whole weights are on the device only during uses, because they are sharded or
  // offloaded. Likewise for whole gradients.
  bool weights_are_transient() const { return whole_weights_ != nullptr; }
  bool gradients_are_transient() const {
    return gradients_sharded_ || tiers_.gradients != Tier::device;
  }
  const ChunkTiers& tiers() const { return tiers_; }

  // [numel]. Transient weights have memory only while they are whole on the device. Gradients have
  // no memory before a step's first gradient, so that they take none while activations grow.
  // Transient gradients are released after their reduction, others when the next step begins.
  const at::Tensor& whole_weights() const { return weights_here_; }
  const at::Tensor& whole_gradients() const { return gradients_here_; }

  // What is stored between uses: covers the shard if it is sharded, else the whole buffer. master()
  // is the tensor weights() unless has_own_masters(). Frozen chunks have no masters, gradients or
  // state.
  StoredTensor& weights() const { return *weights_; }
  StoredTensor& master() const { return *master_; }
  StoredTensor& gradients() const { return *gradients_; }
  const std::vector<std::unique_ptr<StoredTensor>>& state() const { return state_; }
  bool has_own_masters() const { return own_master_ != nullptr; }

  // Writes values, [n], to elements [offset, offset + n) of weights and masters, as far as this
  // rank holds them. Any floating-point dtype.
  void store(int64_t offset, const at::Tensor& values);
  // Call after every rank of the shard group has stored its shard: gathers the other ranks' shards
  // into the tensors that this rank holds whole. Collective over ranks.shards.
  void gather_stored();

  // For transient weights. fetch() begins to fetch the whole weights and wait_for_weights() waits
  // for them; release_weights() takes effect when the last use ends. If weights are sharded,
  // fetch() is collective over ranks.shards. Weights on NVMe are first read to the host span by
  // span: begin_load() begins to read the next span and returns its bytes, or 0 if none is left or
  // weights are not on NVMe. fetch() waits for all spans, begins those that were not begun, and
  // calls `arrived` after each span, so that the caller can begin further loads.
  int64_t begin_load();
  int64_t loading_bytes() const;  // of the spans begun that fetch() has not consumed yet
  void fetch(const std::function<void()>& arrived);
  void wait_for_weights() { gather_.wait(); }
  // can_fetch_experts(): whether the chunk has only stacks of unpacked experts, and is offloaded
  // but not sharded. Then fetch_when_used() may replace fetch(). It only allocates the weights;
  // fetch_experts() then fetches those experts e of a slot that have counts[e] > 0 (rows routed to
  // e) and are not on the device yet, and fetch_all() fetches all missing experts. Both wait for
  // the copy. After a fetch(), both do nothing.
  bool can_fetch_experts() const;
  void fetch_when_used();
  void fetch_experts(size_t slot, const std::vector<int64_t>& counts);
  void fetch_all();
  // Allocates memory for the whole weights, with arbitrary contents, until release_weights().
  void take_weights();
  void release_weights();
  void begin_use() { ++uses_; }
  void end_use();
  bool wanted() const { return wanted_; }  // fetched, and not released since

  // take_gradients() allocates the whole gradients, with arbitrary contents. begin_reduction()
  // writes zeros into gaps, and into slots without a gradient on this rank, because another rank
  // may have one; then it begins to sum over ranks.shards. continue_reduction() waits for that sum
  // and begins the sum over ranks.replicas. After finish_reduction(), gradients() has the sums over
  // ranks and over the micro-batches so far. last: no further reduction follows in this step.
  // begin_reduction() and continue_reduction() are collective.
  void take_gradients();
  // Takes over the memory of `gradient`, which its owner is about to release, and returns true.
  // Returns false if the caller must copy the gradient instead: it is not the gradient of the
  // entire chunk in the dtype of gradients, shares its memory, or the whole gradients are allocated
  // already.
  bool adopt_gradient(const at::Tensor& gradient);
  void begin_reduction();
  void continue_reduction();
  void finish_reduction(bool last);
  // Call after the step's last reduction: sums gradients() over ranks.ends. Collective over them.
  void sum_over_ends();
  bool reduces_each_micro_batch() const { return gradients_sharded_; }
  // Whether a tied table's gradients from the head are reduced before those from the embedding, so
  // that they need not be kept whole until the backward pass reaches the embedding. True if the
  // chunk has row blocks of such a table and its gradients are transient.
  bool reduces_tied_apart() const;
  void forget_gradients();  // at the beginning of a step
  // Returns the sum of squares of the gradients in `part`. Valid after the step's last reduction.
  double squared_gradient_norm() const;

  // Whether updated shards must be all-gathered after an update: at ZeRO stages 1 and 2 with more
  // than one rank.
  bool gathers_updates() const {
    return !weights_sharded_ && ranks.shards.size() > 1 && state_sharded_;
  }
  // The tensor to which an update writes the working weights. It covers at least the elements
  // `held`. If they are gathered and offloaded, this is a whole copy on the device, which
  // finish_weight_gather() moves to the weights' tier.
  StoredTensor& updated_weights();
  void begin_weight_gather();  // collective over ranks.shards; at stage 3 part of fetch()
  void finish_weight_gather();

  void wait_for_collectives();

 private:
  void bring(const Range& elements);  // copies weights from their tier to whole_weights()
  at::Tensor shard_of_gradients() const {
    return gradients_here_.narrow(0, shard.begin, shard.size());
  }
  void zero_missing_gradients();
  void count_kept_sums();
  void keep_sums(bool last);
  // Returns the sum of squares of the elements of a span that are in `part`. sums: [span].
  double counted_squares(const Range& span, const at::Tensor& sums) const;
  std::vector<Range> sum_spans() const;  // the spans of `held`

  ChunkMemory& memory_;
  ChunkTiers tiers_;
  bool state_sharded_, gradients_sharded_, weights_sharded_;
  at::Tensor weights_here_, gradients_here_;        // [numel]
  std::unique_ptr<TransientTensor> whole_weights_;  // set if weights are transient
  std::unique_ptr<TransientTensor> whole_gradients_;
  std::unique_ptr<TransientTensor>
      kept_gradients_;  // reduced gradients, if they are transient and stored on the device
  std::unique_ptr<StoredTensor> weights_, own_master_, gradients_;
  std::unique_ptr<StoredTensor> weights_on_device_;  // whole_weights(), while updates are gathered
  StoredTensor* master_ = nullptr;
  std::vector<std::unique_ptr<StoredTensor>> state_;

  std::deque<TierTransfer> loads_;  // of the next or current fetch, in order
  int64_t load_begun_ = 0;  // number of elements of weights() whose reading began for that fetch
  // After fetch_when_used(): for each slot, which experts are on the device. Empty after a fetch().
  std::vector<std::vector<bool>> experts_on_device_;
  comm::Work gather_;  // of weights
  int uses_ = 0;       // number of current uses
  bool wanted_ = false;

  comm::Work reduction_;
  bool sums_shards_ = false;            // reduction_ is still over the shard group
  bool reduced_ = false;                // gradients() has sums of this step
  std::optional<double> squared_norm_;  // of `part`, computed in the reduction; only if transient
};

}  // namespace colossal::memory
