#include "colossal/memory/chunk.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <utility>

namespace colossal::memory {

Chunk::Chunk(ChunkPlan made, const comm::Group& ranks, const ChunkOptions& options, int zero,
             at::Device device, size_t num_states, BlockPool& weight_blocks,
             BlockPool& gradient_blocks)
    : plan(std::move(made)),
      group(ranks),
      partition(plan.numel, ranks.size(),
                alignment_elements(static_cast<int64_t>(c10::elementSize(options.working)))),
      part(partition.range(ranks.rank())),
      sharding(ChunkSharding::of_stage(zero, ranks)),
      held(sharding.state ? part : Range{0, plan.numel}),
      slots(plan.slots.size()) {
  const auto zeros = [&](int64_t size, at::ScalarType type, MemoryKind kind) {
    const MemoryKindScope scope(kind);
    return at::zeros({size}, at::TensorOptions().dtype(type).device(device));
  };
  if (sharding.weights) {
    whole_working = std::make_unique<LentTensor>(numel(), options.working, device, weight_blocks);
    working = whole_working->tensor();
    own_working = zeros(part.size(), options.working, MemoryKind::parameters);
  } else {
    working = zeros(numel(), options.working, MemoryKind::parameters);
    own_working = working.narrow(0, part.begin, part.size());
  }
  if (!plan.trainable) return;
  if (sharding.gradients) {
    whole_gradient =
        std::make_unique<LentTensor>(numel(), options.gradient, device, gradient_blocks);
    whole_gradient->give();
    gradient = whole_gradient->tensor();
    own_gradient = zeros(part.size(), options.gradient, MemoryKind::gradients);
  } else {
    gradient = zeros(numel(), options.gradient, MemoryKind::gradients);
    own_gradient = gradient.narrow(0, part.begin, part.size());
  }
  own_masters = options.own_masters();
  master = own_masters ? zeros(held.size(), options.master, MemoryKind::optimizer)
                                 : working_view(held);
  for (size_t i = 0; i < num_states; ++i) {
    state.push_back(zeros(held.size(), options.master, MemoryKind::optimizer));
  }
}

at::Tensor Chunk::working_view(Range range) const {
  return sharding.weights ? own_working.narrow(0, range.begin - part.begin, range.size())
                          : working.narrow(0, range.begin, range.size());
}

at::Tensor Chunk::gradient_view(Range range) const {
  return sharding.gradients ? own_gradient.narrow(0, range.begin - part.begin, range.size())
                            : gradient.narrow(0, range.begin, range.size());
}

void Chunk::store(int64_t offset, const at::Tensor& values) {
  const auto copy = [&](Range here, const auto& view_of) {
    here = intersect({offset, offset + values.numel()}, here);
    if (here.empty()) return;
    view_of(here).copy_(values.narrow(0, here.begin - offset, here.size()));
  };
  copy(weights_here(), [&](Range here) { return working_view(here); });
  if (!own_masters) return;
  copy(held, [&](Range here) { return held_view(master, here); });
}

void Chunk::zero_missing_gradients() {
  if (whole_gradient) whole_gradient->take();
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    const Range range = range_of(slot);
    const int64_t begin = slots[slot].summed ? range.end : range.begin;
    const int64_t end = slot + 1 < slots.size() ? range_of(slot + 1).begin : numel();
    gradient.narrow(0, begin, end - begin).zero_();
  }
}

void Chunk::fetch() {
  wanted = true;
  // Already here, and waited for, where a node of autograd has kept it while a block ran again: the
  // others may not have it, so that all gather once more, the same bits.
  whole_working->take();
  working.narrow(0, part.begin, part.size()).copy_(own_working);
  gather = comm::all_gather_async(working, partition.counts(), group, comm::Reason::parameter);
}

void Chunk::let_go() {
  wanted = false;
  if (uses > 0) return;
  gather.wait();
  whole_working->give();
}

void Chunk::end_of_use() {
  if (--uses == 0 && !wanted && whole_working) let_go();
}

}  // namespace colossal::memory
