// Chunk: a flat buffer of about 16 MiB of whole parameters, with the masters, gradients and
// optimizer state that this rank holds of them. Each parameter has a slot, which is its range of
// the buffer; gaps between slots align them to 64 bytes.
//
// ZeRO divides tensors evenly over the ranks of a shard group: masters and optimizer state from
// stage 1 on, gradients from stage 2 on, and weights at stage 3. Weights and gradients that are
// sharded or offloaded are whole on the device only temporarily ("transient"). ChunkEngine owns the
// chunks of a rank and calls their functions; Chunk itself does not decide when to communicate.
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
#include "colossal/ops/pending_sum.h"

namespace colossal::memory {

// Options of all chunks of a rank.
struct ChunkOptions {
  at::ScalarType working = at::kFloat;   // dtype in which the model computes
  at::ScalarType master = at::kFloat;    // dtype of masters; see Chunk::has_own_masters()
  at::ScalarType gradient = at::kFloat;  // dtype in which gradients are accumulated and reduced
  // Limits the size of chunks: a chunk's weights, each element counted once over all ranks, have at
  // most chunk_bytes * tp bytes. If tp shards the weights, a rank thus has about chunk_bytes of
  // them, before ZeRO divides them. A parameter above the limit has a chunk of its own.
  int64_t chunk_bytes = int64_t{16} << 20;
  // For ZeRO stages 2 and 3 with several micro-batches per step. false: gradients are reduced after
  // each micro-batch and accumulated in the shards. true: gradients are accumulated whole and
  // reduced once, after the last micro-batch, with less traffic and more memory.
  bool reduce_once_per_step = false;
  // Largest number of bytes of transient weights on the device at once: the chunk in use and the
  // chunks fetched ahead. Two exceptions: the chunk after the one in use is always fetched ahead;
  // and all chunks are fetched as long as the order in which they are used is not known
  // (ChunkEngine). If weights are on NVMe, up to about half as many further bytes are being read
  // into host memory. The default is three times the default of chunk_bytes.
  int64_t window_bytes = int64_t{48} << 20;
  // Whether the model reads weights through parameter handles. true: ChunkEngine::update() may
  // return while updated weights are still being gathered, and the next forward pass waits for each
  // chunk at its first use. false, for a user's own torch module: update() waits until all weights
  // are gathered.
  bool uses_parameter_handles = true;
  Tiers tiers;  // the shares of each kind of tensors in tiers other than the device
};

// The tiers in which a chunk's tensors are stored between uses.
struct ChunkTiers {
  Tier parameters = Tier::device;
  Tier gradients = Tier::device;
  Tier optimizer = Tier::device;  // masters and optimizer states
};

// The ranks over which a chunk's gradients are summed. The groups must outlive the chunk.
struct ChunkRanks {
  const comm::Group& shards;    // the shard group: the ranks over which ZeRO divides the chunk
  const comm::Group& replicas;  // the ranks with the same shard in other shard groups
  // If the chunk belongs to a table that the pipeline's first and last stage both use (tied
  // embedding and head), and these stages are on two ranks: these two ranks; else this rank alone.
  // The table's gradients are summed over these ranks after the step's last micro-batch.
  const comm::Group& ends;
};

// Memory off the device, and writes in progress, of all chunks of a rank.
struct ChunkMemory {
  // device: the rank's device. nvme_path: folder for the files on NVMe; empty if no tensor is
  // stored on NVMe.
  ChunkMemory(at::Device device, const std::string& nvme_path);

  TierPools pools;
  PendingWrites gradient_writes;  // of gradients to NVMe
};

class Chunk {
 public:
  // made, stage: become the members `plan` and `stage` below. zero: the ZeRO stage. memory: must
  // outlive this.
  Chunk(ChunkPlan made, int stage, const ChunkRanks& ranks, const ChunkOptions& options, int zero,
        const ChunkTiers& tiers, ChunkMemory& memory);

  // Ranges are elements of the chunk's buffer.
  const ChunkPlan plan;
  const ChunkRanks ranks;
  const Partition partition;  // division of the buffer over ranks.shards
  const Range shard;          // this rank's shard of the buffer
  // Elements whose masters, optimizer state and reduced gradients this rank holds: the shard; with
  // ZeRO stage 0 the whole buffer. At stage 1, gradients on the device stay whole after a
  // reduction, but only the elements `held` are then sums over ranks.
  const Range held;
  // The pipeline stage, one of this rank's, whose backward passes complete the gradients.
  const int stage;
  // This rank's part of the shard: the shard divided over ranks.replicas. This rank writes these
  // elements to checkpoints and counts them in norms, unless another rank does so for a copy of the
  // chunk (plan.placement.replica is not 0).
  const Range part;

  // The gradients of a slot in a step.
  struct SlotState {
    bool written = false;    // whether this rank has computed a gradient in this step
    bool unreduced = false;  // whether whole_gradients() has a gradient that is not reduced yet
    // Whether the running backward pass has yet to produce the gradient of the layer that owns the
    // parameter (pending), and the gradient of the second layer that uses a tied table
    // (pending_tied).
    bool pending = false, pending_tied = false;
  };
  std::vector<SlotState> slots;  // by index in plan.slots
  // pending: number of gradients that the running backward pass has yet to produce, counting both
  // SlotState::pending and pending_tied. pending_tied: number of the latter only.
  size_t pending = 0, pending_tied = 0;

  int64_t numel() const { return plan.numel; }
  // Returns the elements of a slot, the slot with index `slot` in plan.slots.
  Range range_of(size_t slot) const {
    return {plan.slots[slot].offset, plan.slots[slot].offset + plan.slots[slot].numel};
  }
  // weights_are_transient() returns whether the whole weights are on the device only temporarily,
  // because they are sharded or offloaded; gradients_are_transient() likewise for gradients.
  bool weights_are_transient() const { return whole_weights_ != nullptr; }
  bool gradients_are_transient() const {
    return gradients_sharded_ || tiers_.gradients != Tier::device;
  }
  const ChunkTiers& tiers() const { return tiers_; }

  // The buffers of whole weights and whole gradients on the device, [numel]. Transient weights have
  // memory only while they are whole on the device. Gradients have no memory before the step's
  // first gradient, so that they take none while activations grow. Transient gradients are released
  // after their reduction, other gradients when the next step begins. Frozen chunks have no
  // gradients: whole_gradients() is an undefined tensor.
  const at::Tensor& whole_weights() const { return weights_here_; }
  const at::Tensor& whole_gradients() const { return gradients_here_; }

  // The tensors that are stored between uses. weights() covers the shard if weights are sharded,
  // else the whole buffer. gradients() and each state() cover `held`. state(): by index of
  // Optimizer::state_names(). Frozen chunks have weights() only; for them, do not call master() and
  // gradients(), and state() is empty.
  //
  // has_own_masters(): whether master() is a tensor of its own, which covers `held`; else master()
  // is weights(). True if masters and working weights differ in dtype. Also true if the weights are
  // offloaded and updated shards must be all-gathered (gathers_updates()).
  StoredTensor& weights() const { return *weights_; }
  StoredTensor& master() const { return *master_; }
  StoredTensor& gradients() const { return *gradients_; }
  const std::vector<std::unique_ptr<StoredTensor>>& state() const { return state_; }
  bool has_own_masters() const { return own_master_ != nullptr; }

  // Writes `values`, [n], to elements [offset, offset + n) of weights and masters, as far as this
  // rank stores them. values: of any floating-point dtype; for packed weights, uint8 bytes.
  void store(int64_t offset, const at::Tensor& values);
  // Gathers the shards that store() has written on the other ranks into the tensors that this rank
  // holds whole. Call this when every rank of the shard group has stored its shard. Collective over
  // ranks.shards.
  void gather_stored();

  // The following functions are for transient weights. Some may be called for any chunk:
  // wait_for_weights(), fetch_experts(), fetch_all(), take_weights(), begin_use(), end_use() and
  // wanted(). If weights are not transient, fetch_experts(), fetch_all() and take_weights() do
  // nothing, and wanted() returns false.

  // Begins to read the next span of weights on NVMe into host memory, for the next fetch(). A span
  // is up to kSpan consecutive elements (stored_tensor.h). Returns the bytes of the span; 0 if no
  // span is left or the weights are not on NVMe.
  int64_t begin_load();
  // Returns the bytes of the spans that begin_load() has begun and fetch() has not used yet.
  int64_t loading_bytes() const;
  // Fetches the whole weights to the device. First copies what this rank stores: its shard, or the
  // whole weights if they are not sharded. For weights on NVMe, this begins to read the spans that
  // were not begun, waits for all spans, and calls `arrived` after each span, so that the caller
  // can begin to load other chunks. For other weights, does not call `arrived`. Then, only if
  // weights are sharded, begins to all-gather them and returns. The weights are whole after
  // wait_for_weights(). Collective over ranks.shards if weights are sharded.
  void fetch(const std::function<void()>& arrived);
  // Waits for the weights that fetch() has begun to copy to the device, and for the all-gather that
  // fetch() or, after an update, begin_weight_gather() has begun. On a GPU, the current stream
  // waits instead of the host. Returns at once if there is nothing to wait for.
  void wait_for_weights();
  // Returns whether fetch_when_used() may replace fetch(): whether the chunk has only stacks of
  // experts that are not packed (Parameter::packed), and its weights are offloaded but not sharded.
  bool can_fetch_experts() const;
  // Allocates the whole weights, but fetches none. fetch_experts() then fetches the experts e of a
  // slot with counts[e] > 0 that are not on the device yet; counts[e]: number of rows routed to
  // expert e. fetch_all() fetches all experts that are not on the device yet. Both wait for the
  // copies as wait_for_weights() does. After a fetch(), both do nothing.
  void fetch_when_used();
  void fetch_experts(size_t slot, const std::vector<int64_t>& counts);
  void fetch_all();
  // Allocates memory for the whole weights, with arbitrary contents, until release_weights(). Does
  // nothing if they have memory.
  void take_weights();
  // Releases the whole weights, as soon as no use is in progress.
  void release_weights();
  // Called around each use of the weights; uses may overlap.
  void begin_use() { ++uses_; }
  void end_use();
  // Returns whether fetch() or fetch_when_used() was called, and release_weights() not since then.
  bool wanted() const { return wanted_; }

  // The following functions are for gradients.

  // Allocates the whole gradients, with arbitrary contents; does nothing if they are allocated.
  void take_gradients();
  // Moves the memory of `gradient`, with its contents, to the whole gradients, and returns true.
  // The owner of `gradient` must be about to release it. Returns false if the caller must copy the
  // gradient instead: if it is not the gradient of the entire chunk in the dtype of gradients, if
  // others use its memory, or if the whole gradients are allocated already.
  bool adopt_gradient(const at::Tensor& gradient);
  // A reduction sums the whole gradients over ranks. Call these functions in their order:
  //   begin_reduction()     writes zeros into gaps, and into slots without a gradient on this rank,
  //                         because another rank may have one; then begins to sum over
  //                         ranks.shards. Collective over ranks.shards.
  //   continue_reduction()  waits for this sum and begins to sum over ranks.replicas. Collective
  //                         over ranks.replicas. May be left out; finish_reduction() then calls
  //                         it.
  //   finish_reduction()    waits for all sums, and begins to move them to their tier. last:
  //                         whether this is the last reduction of the step.
  //   finish_keeping()      waits until they have come there, and releases the whole gradients. On
  //                         the CPU, finish_reduction() has done so. gradients() then has the sums
  //                         over ranks and over the micro-batches of the step so far; if gradients
  //                         are on NVMe, only when ChunkMemory::gradient_writes are finished.
  void begin_reduction();
  void continue_reduction();
  void finish_reduction(bool last);
  void finish_keeping();
  // After the step's last reduction: lets another one follow, which will sum up what was reduced
  // and what comes until then. Transient gradients need nothing for that.
  void continue_gradients();
  // Sums gradients() over ranks.ends. Call this after the step's last finish_keeping(), when its
  // gradient_writes are finished; this may begin further ones. Collective over ranks.ends.
  void sum_over_ends();
  // Returns whether gradients are sharded (ZeRO stages 2 and 3), so that they are reduced after
  // each micro-batch by default.
  bool reduces_each_micro_batch() const { return gradients_sharded_; }
  // Returns whether a tied table's gradients from the head are reduced before its gradients from
  // the embedding, so that the former need not be kept whole until the backward pass reaches the
  // embedding. True if the chunk has blocks of rows (nn::RowBlock) of a tied table, both layers are
  // on one stage, and gradients are transient.
  bool reduces_tied_apart() const;
  void release_gradients();  // releases all gradients; called when a step begins
  // Returns the sum of squares of the gradients in `part`, even if another rank counts them for a
  // copy of the chunk; the caller must then leave this chunk out of the norm. Valid after the
  // step's last reduction and sum_over_ends().
  ops::PendingSum squared_gradient_norm() const;

  // The following functions are for updates.

  // Returns whether the shards that ranks have updated must be all-gathered: at ZeRO stages 1 and 2
  // with more than one rank in the shard group.
  bool gathers_updates() const {
    return !weights_sharded_ && ranks.shards.size() > 1 && state_sharded_;
  }
  // Returns the tensor to which an update writes the working weights; it covers at least the
  // elements `held`. If updates are gathered and weights are offloaded, this is a whole copy on the
  // device, which finish_weight_gather() moves to the weights' tier.
  StoredTensor& updated_weights();
  // Begins to all-gather the updated shards into whole_weights(). Collective over ranks.shards.
  void begin_weight_gather();
  // If weights are offloaded, waits for the gather and moves the weights to their tier; else does
  // nothing, and wait_for_weights() waits for the gather.
  void finish_weight_gather();

  void wait_for_collectives();  // waits for all reductions and gathers in progress

 private:
  // Copies the weights `elements` from their tier to whole_weights().
  void bring(const Range& elements);
  at::Tensor shard_of_gradients() const {
    return gradients_here_.narrow(0, shard.begin, shard.size());
  }
  // Writes zeros into gaps and into slots without a gradient.
  void zero_missing_gradients();
  // Counts the bytes that accumulate_reduced_gradients() will move to and from the gradients' tier.
  void count_kept_sums();
  // Adds reduced gradients of a micro-batch, the elements `span`, to gradients(): at once if they
  // are stored on the device; else finish_keeping() ends what this begins.
  void accumulate_reduced_gradients(const Range& span, bool last);
  void end_keeping();  // waits for keeping_ and empties it
  // Returns the sum of squares of the elements of a span that are in `part`. sums: [span].
  ops::PendingSum counted_squares(const Range& span, const at::Tensor& sums) const;
  std::vector<Range> held_spans() const;  // the spans of `held`

  ChunkMemory& memory_;
  ChunkTiers tiers_;
  bool state_sharded_, gradients_sharded_, weights_sharded_;
  at::Tensor weights_here_, gradients_here_;          // whole_weights(), whole_gradients()
  std::unique_ptr<TransientTensor> whole_weights_;    // null if weights are not transient
  std::unique_ptr<TransientTensor> whole_gradients_;  // null if the chunk is frozen
  // The reduced gradients, if they are sharded and stored on the device; else null.
  std::unique_ptr<TransientTensor> kept_gradients_;
  std::unique_ptr<StoredTensor> weights_, own_master_, gradients_;
  std::unique_ptr<StoredTensor> weights_on_device_;  // whole_weights(), while updates are gathered
  StoredTensor* master_ = nullptr;
  std::vector<std::unique_ptr<StoredTensor>> state_;

  std::deque<TierTransfer> loads_;  // spans that are read for the next or current fetch, in order
  int64_t load_begun_ = 0;  // number of elements of weights() whose reading began for this fetch
  // After fetch_when_used(): whether each expert of each slot is on the device, [slots][experts].
  // Empty after a fetch().
  std::vector<std::vector<bool>> experts_on_device_;
  Copy arrival_;       // of weights from the host, in progress
  comm::Work gather_;  // all-gather of weights in progress
  int uses_ = 0;       // number of uses in progress
  bool wanted_ = false;

  comm::Work reduction_;      // reduction of gradients in progress
  bool sums_shards_ = false;  // whether reduction_ is over ranks.shards, and ranks.replicas follow
  bool reduced_ = false;      // whether gradients() has sums of this step
  // A span of reduced gradients on its way to a tier other than the device.
  struct Keeping {
    Copy copy;
    // The gradients of the step so far, on the host; nullopt if the copy is all that is to be done.
    std::optional<TierTransfer> kept{};
    at::Tensor sums{};     // of this micro-batch, on the host; undefined if copied into `kept`
    bool counted = false;  // whether their squares are part of the norm, and not counted yet
  };
  std::deque<Keeping> keeping_;
  // For transient gradients: squared_gradient_norm(), computed by the last reduction.
  ops::PendingSum squared_norm_;
};

}  // namespace colossal::memory
