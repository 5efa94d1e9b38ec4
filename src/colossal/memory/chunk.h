// A chunk: a flat buffer of parameters with their gradients and optimizer state, as far as these
// are here. What is sharded is cut into equal parts over the ranks that hold the same parameters.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "colossal/comm/group.h"
#include "colossal/layout/partition.h"
#include "colossal/memory/block_pool.h"
#include "colossal/memory/chunk_plan.h"

namespace colossal::memory {

struct ChunkOptions {
  at::ScalarType working = at::kFloat;   // what the model computes with
  at::ScalarType master = at::kFloat;    // what is updated; equal to working: one copy serves both
  at::ScalarType gradient = at::kFloat;  // accumulates and travels in this type
  int64_t chunk_bytes = int64_t{16} << 20;
  // Stages 2 and 3, with several micro-batches. false: gradients are reduced at each and summed in
  // the parts. true: they are summed whole and reduced at the last: less traffic, more memory.
  bool accumulate_whole = false;
  // Stage 3: how much is gathered ahead of the chunk in use; the next other one in any case.
  int64_t ahead_bytes = int64_t{32} << 20;
  // The model reads weights through handles, so that the next forward waits for each chunk as it
  // comes to it. A foreign module does not: update() returns when all weights are here.
  bool handles_used = true;

  bool own_masters() const { return master != working; }
};

// What of a chunk each rank holds but its part of.
struct ChunkSharding {
  bool state = false;
  bool gradients = false;
  bool weights = false;

  static ChunkSharding of_stage(int zero, const comm::Group& group) {
    return {zero >= 1, zero >= 2 && group.size() > 1, zero >= 3 && group.size() > 1};
  }
};

struct Chunk {
  Chunk(ChunkPlan made, const comm::Group& ranks, const ChunkOptions& options, int zero,
        at::Device device, size_t num_states, BlockPool& weight_blocks, BlockPool& gradient_blocks);

  ChunkPlan plan;
  const comm::Group& group;  // the ranks that hold the same elements and see other data
  Partition partition;       // of the buffer over that group
  Range part;                // this rank's of it: written to checkpoints, counted in norms
  ChunkSharding sharding;
  Range held;  // whose masters and state are here: part, or at stage 0 everything

  // Sharded weights and gradients have a part of their own, [part], and are whole for a while.
  at::Tensor working;             // [numel]
  at::Tensor own_working;         // [part]
  at::Tensor gradient;            // [numel]
  at::Tensor own_gradient;        // [part]
  bool own_masters = false;       // apart from the working weights
  at::Tensor master;              // [held]
  std::vector<at::Tensor> state;  // [held] each
  std::unique_ptr<LentTensor> whole_working, whole_gradient;  // what of the above comes and goes

  struct SlotState {
    bool written = false;  // had a gradient in this step
    bool summed = false;   // ... which the whole buffer holds
    bool pending = false;  // its gradient of the micro-batch is still to come
    int64_t updates = 0;
  };
  std::vector<SlotState> slots;
  size_t pending = 0;  // slots whose gradient is still to come

  comm::Work reduction;  // of gradients
  bool reduced = false;  // own_gradient holds sums of this step's earlier micro-batches
  comm::Work gather;     // of weights
  int uses = 0;          // that keep the whole weights here
  bool wanted = false;   // by the fetch plan

  int64_t numel() const { return plan.numel; }
  Range range_of(size_t slot) const {
    return {plan.slots[slot].offset, plan.slots[slot].offset + plan.slots[slot].numel};
  }
  // Whose working weights rest here.
  Range weights_here() const { return sharding.weights ? part : Range{0, numel()}; }
  // Views of the elements `range` (in the chunk's count). Those of masters, state and gradients
  // must lie in `held`, those of weights in weights_here().
  at::Tensor held_view(const at::Tensor& tensor, Range range) const {
    return tensor.narrow(0, range.begin - held.begin, range.size());
  }
  at::Tensor working_view(Range range) const;
  at::Tensor gradient_view(Range range) const;

  // Elements from `offset` on: working weights, and masters, as far as they are here.
  void store(int64_t offset, const at::Tensor& values);

  // Zeros stand for what no operator gave a gradient, another rank may have one, and in the gaps.
  void zero_missing_gradients();

  void fetch();       // begins to make the weights whole
  void let_go();      // as soon as no use keeps them
  void end_of_use();  // of one of `uses`
};

}  // namespace colossal::memory
