#include "colossal/memory/chunk.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/io/huge_pages.h"
#include "colossal/ops/optimizer_kernels.h"

namespace colossal::memory {
namespace {

using Access = TierTransfer::Access;
using Counted = TierTransfer::Counted;

int64_t alignment_of(const ChunkPlan& plan) {
  return alignment_elements(plan.element_bytes());
}

// Lengthens the buffer of a chunk that ZeRO divides, so that all ranks' shards, and parts of
// shards, are equal: NCCL gathers and scatters only equal parts in one call without copies. A
// parameter that has a chunk for itself keeps its length, so that its gradient is adopted without a
// copy.
ChunkPlan with_equal_shards(ChunkPlan plan, const ChunkRanks& ranks, int zero) {
  if (zero == 0 || plan.slots.size() == 1) return plan;
  const int64_t unit = alignment_of(plan) * ranks.shards.size() * ranks.replicas.size();
  plan.numel = (plan.numel + unit - 1) / unit * unit;
  return plan;
}

Range part_of(Range shard, const comm::Group& replicas, int64_t alignment) {
  const Range part = Partition(shard.size(), replicas.size(), alignment).range(replicas.rank());
  return {shard.begin + part.begin, shard.begin + part.end};
}

// Returns the tensor where the group's calls take it: a group of GPUs does not take one that is
// stored on the host.
at::Tensor for_calls_of(const comm::Group& group, const at::Tensor& tensor) {
  return group.device().is_cuda() && tensor.is_cpu() ? tensor.to(group.device()) : tensor;
}

// Provides the memory as huge pages, by several threads. Each page is provided by one thread:
// threads that write to a page at the same time would each clear it.
void provide_huge_pages(const at::Tensor& memory) {
  auto* const begin = static_cast<std::byte*>(memory.mutable_data_ptr());
  const auto bytes = static_cast<int64_t>(memory.nbytes());
  io::advise_huge_pages(begin, memory.nbytes());
  constexpr auto kPage = static_cast<int64_t>(io::kHugePage);
  const auto after = static_cast<int64_t>(reinterpret_cast<uintptr_t>(begin) % io::kHugePage);
  at::parallel_for(0, (after + bytes + kPage - 1) / kPage, 1, [&](int64_t first, int64_t end) {
    const int64_t from = std::max<int64_t>(0, first * kPage - after);
    const int64_t to = std::min(bytes, end * kPage - after);
    io::provide_pages(begin + from, static_cast<size_t>(to - from));
  });
}

}  // namespace

ChunkMemory::ChunkMemory(at::Device device, const std::string& nvme_path)
    : pools(device, nvme_path) {}

Chunk::Chunk(ChunkPlan made, int of_stage, const ChunkRanks& same, const ChunkOptions& options,
             int zero, const ChunkTiers& tiers, ChunkMemory& memory)
    : plan(with_equal_shards(std::move(made), same, zero)),
      ranks(same),
      partition(plan.numel, ranks.shards.size(), alignment_of(plan)),
      shard(partition.range(ranks.shards.rank())),
      held(zero >= 1 ? shard : Range{0, plan.numel}),
      stage(of_stage),
      part(part_of(shard, ranks.replicas, alignment_of(plan))),
      slots(plan.slots.size()),
      memory_(memory),
      tiers_(tiers),
      state_sharded_(zero >= 1),
      gradients_sharded_(zero >= 2 && ranks.shards.size() > 1),
      weights_sharded_(zero >= 3 && ranks.shards.size() > 1) {
  TierPools& pools = memory.pools;
  const Range all{0, numel()};
  const Range resting = weights_sharded_ ? shard : all;
  if (weights_sharded_ || tiers.parameters != Tier::device) {
    whole_weights_ =
        std::make_unique<TransientTensor>(numel(), plan.type, pools.device(), MemoryKind::gathered);
    weights_here_ = whole_weights_->tensor();
    weights_ = std::make_unique<StoredTensor>(tiers.parameters, resting, plan.type,
                                              MemoryKind::parameters, pools);
  } else {
    const MemoryKindScope scope(MemoryKind::parameters);
    const auto type = at::TensorOptions().dtype(plan.type).device(pools.device());
    // Frozen weights need no zeros: all of them are loaded or initialized, and no update reads the
    // gaps between them.
    weights_here_ = plan.trainable ? at::zeros({numel()}, type) : at::empty({numel()}, type);
    if (!plan.trainable && pools.device().is_cpu()) provide_huge_pages(weights_here_);
    weights_ = std::make_unique<StoredTensor>(weights_here_, all, MemoryKind::parameters, pools);
  }
  if (!plan.trainable) return;

  const auto lent_gradients = [&](int64_t size) {
    return std::make_unique<TransientTensor>(size, options.gradient, pools.device(),
                                             MemoryKind::gradients);
  };
  whole_gradients_ = lent_gradients(numel());
  gradients_here_ = whole_gradients_->tensor();
  if (tiers.gradients != Tier::device) {
    gradients_ = std::make_unique<StoredTensor>(tiers.gradients, held, options.gradient,
                                                MemoryKind::gradients, pools);
  } else if (gradients_sharded_) {
    kept_gradients_ = lent_gradients(held.size());
    gradients_ = std::make_unique<StoredTensor>(kept_gradients_->tensor(), held,
                                                MemoryKind::gradients, pools);
  } else {
    whole_gradients_->take();  // narrow() needs memory
    gradients_ = std::make_unique<StoredTensor>(gradients_here_.narrow(0, held.begin, held.size()),
                                                held, MemoryKind::gradients, pools);
    whole_gradients_->give();
  }
  // Separate masters are needed if their type differs, or if ranks update shards that are gathered
  // on the device while whole weights are stored in another tier.
  if (options.master != options.working || (gathers_updates() && weights_are_transient())) {
    own_master_ = std::make_unique<StoredTensor>(tiers.optimizer, held, options.master,
                                                 MemoryKind::optimizer, pools);
  }
  master_ = own_master_ ? own_master_.get() : weights_.get();
  for (size_t i = 0; i < plan.optimizer->state_names().size(); ++i) {
    state_.push_back(std::make_unique<StoredTensor>(tiers.optimizer, held, options.master,
                                                    MemoryKind::optimizer, pools));
  }
}

void Chunk::store(int64_t offset, const at::Tensor& values) {
  const auto write = [&](StoredTensor& to) {
    const Range here = intersect({offset, offset + values.numel()}, to.covers());
    if (!here.empty()) to.write(here.begin, values.narrow(0, here.begin - offset, here.size()));
  };
  write(*weights_);
  if (own_master_) write(*own_master_);
}

void Chunk::gather_stored() {
  const comm::Reason reason = comm::Reason::parameter;
  if (!weights_sharded_ && ranks.shards.size() > 1) {
    if (whole_weights_) {
      whole_weights_->take();
      weights_here_.narrow(0, shard.begin, shard.size()).copy_(weights_->read(shard));
    }
    comm::all_gather(weights_here_, partition.counts(), ranks.shards, reason);
    if (whole_weights_) {
      weights_->write(0, weights_here_);
      whole_weights_->give();
    }
  }
  // Without ZeRO, this rank also has the masters of the other ranks' shards: gather these too.
  if (!own_master_ || state_sharded_ || ranks.shards.size() == 1) return;
  const at::Tensor masters = for_calls_of(ranks.shards, own_master_->read(held).contiguous());
  comm::all_gather(masters, partition.counts(), ranks.shards, reason);
  own_master_->write(0, masters);
}

int64_t Chunk::begin_load() {
  const Range resting = weights_->covers();
  const Range rest{resting.begin + load_begun_, resting.end};
  if (tiers_.parameters != Tier::nvme || rest.empty()) return 0;
  const Range span = spans_of(rest, resting.begin).front();
  loads_.emplace_back(*weights_, span, Tier::host, Access::read, Counted::no);
  load_begun_ += span.size();
  return span.size() * weights_->element_bytes();
}

int64_t Chunk::loading_bytes() const {
  int64_t elements = 0;
  for (const TierTransfer& load : loads_) elements += load.range().size();
  return elements * weights_->element_bytes();
}

void Chunk::fetch(const std::function<void()>& arrived) {
  wanted_ = true;
  arrival_ = {};
  experts_on_device_.clear();
  // If an autograd node still uses the weights of a recomputed block, they are on the device
  // already. They are gathered nonetheless, with the same bits: other ranks may lack them, and all
  // must take part.
  whole_weights_->take();
  const Range resting = weights_->covers();
  CopyStreams& copies = memory_.pools.copies();
  const auto place_of = [&](Range elements) {
    return weights_here_.narrow(0, elements.begin, elements.size());
  };
  switch (tiers_.parameters) {
    case Tier::device:
      place_of(resting).copy_(weights_->memory(resting));
      break;
    case Tier::host:
      arrival_ = weights_->copy_to_device(resting, place_of(resting));
      break;
    case Tier::nvme:
      while (!loads_.empty() || begin_load() > 0) {
        arrival_ = copies.to_device(place_of(loads_.front().range()), loads_.front().tensor());
        loads_.pop_front();
        arrived();
      }
      load_begun_ = 0;
      break;
  }
  if (tiers_.parameters != Tier::device) {
    memory_.pools.count_from(tiers_.parameters, MemoryKind::parameters, weights_->bytes());
  }
  if (!weights_sharded_) return;
  // The gather follows the copy, and not what the device is given to compute meanwhile. Without a
  // copy, because the shard is empty, nothing has made that stream wait for the memory.
  c10::OptionalStreamGuard current;
  if (arrival_.is_under_way()) current.reset_stream(*copies.stream_to_device());
  begin_weight_gather();
}

void Chunk::wait_for_weights() {
  std::exchange(arrival_, {}).precede_current_stream();
  gather_.wait();
}

bool Chunk::can_fetch_experts() const {
  // Packed weights are not stored expert by expert.
  return !weights_sharded_ && tiers_.parameters != Tier::device &&
         std::ranges::all_of(plan.slots, [](const Slot& slot) {
           return slot.parameter->of_experts && !slot.parameter->packed;
         });
}

void Chunk::fetch_when_used() {
  const bool is_here = std::exchange(wanted_, true) || uses_ > 0;
  whole_weights_->take();
  if (is_here) return;
  experts_on_device_.clear();
  for (const Slot& slot : plan.slots)
    experts_on_device_.emplace_back(slot.parameter->local_shape()[0]);
}

void Chunk::fetch_experts(size_t slot, const std::vector<int64_t>& counts) {
  if (experts_on_device_.empty()) return;
  std::vector<bool>& here = experts_on_device_[slot];
  const int64_t of_expert = plan.slots[slot].numel / std::ssize(here);
  COLOSSAL_CHECK(of_expert * std::ssize(here) == plan.slots[slot].numel,
                 "{}: {} elements of {} experts", plan.slots[slot].parameter->name,
                 plan.slots[slot].numel, here.size());
  for (size_t expert = 0; expert < here.size(); ++expert) {
    if (counts[expert] == 0 || here[expert]) continue;
    here[expert] = true;
    const int64_t begin = plan.slots[slot].offset + static_cast<int64_t>(expert) * of_expert;
    bring({begin, begin + of_expert});
  }
  std::exchange(arrival_, {}).precede_current_stream();
}

void Chunk::fetch_all() {
  for (size_t slot = 0; slot < experts_on_device_.size(); ++slot) {
    fetch_experts(slot, std::vector<int64_t>(experts_on_device_[slot].size(), 1));
  }
}

// Copies elements to the device. From NVMe, reads whole spans; a span that other experts share is
// read again for each.
void Chunk::bring(const Range& elements) {
  const at::NoGradGuard no_grad;
  const auto place_of = [&](Range part) {
    return weights_here_.narrow(0, part.begin, part.size());
  };
  int64_t moved = elements.size();
  if (tiers_.parameters == Tier::nvme) {
    moved = 0;
    for (const Range& span : spans_of(weights_->covers(), weights_->covers().begin)) {
      const Range wanted = intersect(span, elements);
      if (wanted.empty()) continue;
      TierTransfer load(*weights_, span, Tier::host, Access::read, Counted::no);
      moved += span.size();
      arrival_ = memory_.pools.copies().to_device(
          place_of(wanted), load.tensor().narrow(0, wanted.begin - span.begin, wanted.size()));
    }
  } else {
    arrival_ = weights_->copy_to_device(elements, place_of(elements));
  }
  memory_.pools.count_from(tiers_.parameters, MemoryKind::parameters,
                           moved * weights_->element_bytes());
}

void Chunk::take_weights() {
  if (whole_weights_) whole_weights_->take();
}

void Chunk::release_weights() {
  wanted_ = false;
  if (uses_ > 0) return;
  wait_for_weights();
  whole_weights_->give();
}

void Chunk::end_use() {
  if (--uses_ == 0 && !wanted_ && whole_weights_) release_weights();
}

void Chunk::take_gradients() {
  finish_keeping();
  whole_gradients_->take();
}

bool Chunk::adopt_gradient(const at::Tensor& gradient) {
  finish_keeping();
  // During the hook, autograd has two tensors of this storage: the leaf's gradient, and the result
  // that it was made of.
  constexpr size_t kOwners = 2;
  const bool whole = gradient.numel() == numel() && gradient.is_contiguous() &&
                     gradient.scalar_type() == gradients_here_.scalar_type() &&
                     gradient.storage_offset() == 0;
  return whole && gradient.storage().use_count() <= kOwners &&
         whole_gradients_->take_from(gradient.storage());
}

// Zeroes the gaps between parameters, and gradients that have not come since the last reduction.
void Chunk::zero_missing_gradients() {
  take_gradients();
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    const Range range = range_of(slot);
    const int64_t begin = slots[slot].unreduced ? range.end : range.begin;
    const int64_t end = slot + 1 < slots.size() ? range_of(slot + 1).begin : numel();
    gradients_here_.narrow(0, begin, end - begin).zero_();
  }
}

// Counts when a reduction begins, so that the traffic belongs to its own micro-batch: the reduction
// may end in the next.
void Chunk::count_kept_sums() {
  if (tiers_.gradients == Tier::device) return;
  memory_.pools.count_to(tiers_.gradients, MemoryKind::gradients, gradients_->bytes());
  if (reduced_ && tiers_.gradients == Tier::nvme) {
    memory_.pools.count_from(Tier::nvme, MemoryKind::gradients, gradients_->bytes());
  }
}

void Chunk::begin_reduction() {
  zero_missing_gradients();
  count_kept_sums();
  const comm::Reason reason = comm::Reason::gradient;
  if (!state_sharded_) {
    reduction_ = comm::all_reduce_async(gradients_here_, ranks.shards, reason);
    return;
  }
  reduction_ = comm::reduce_scatter_async(gradients_here_, shard_of_gradients(), partition.counts(),
                                          ranks.shards, reason);
  sums_shards_ = ranks.replicas.size() > 1;
}

void Chunk::continue_reduction() {
  if (!sums_shards_) return;
  sums_shards_ = false;
  reduction_.wait();
  reduction_ = comm::all_reduce_async(shard_of_gradients(), ranks.replicas, comm::Reason::gradient);
}

void Chunk::finish_reduction(bool last) {
  continue_reduction();
  reduction_.wait();
  for (SlotState& slot : slots) slot.unreduced = false;
  if (!gradients_are_transient()) return;
  squared_norm_ = 0;
  if (kept_gradients_) kept_gradients_->take();
  const bool overlaps =
      tiers_.gradients != Tier::device && memory_.pools.copies().are_asynchronous();
  for (const Range& span : held_spans()) {
    accumulate_reduced_gradients(span, last);
    if (!overlaps) end_keeping();
  }
  reduced_ = true;
  if (keeping_.empty()) whole_gradients_->give();
}

void Chunk::finish_keeping() {
  if (keeping_.empty()) return;
  end_keeping();
  whole_gradients_->give();
}

// Each element of the sums stays on one rank, so that the next reduction counts it once.
void Chunk::continue_gradients() {
  if (gradients_are_transient()) return;
  finish_reduction(/*last=*/true);
  const Range kept = ranks.replicas.rank() == 0 ? shard : Range{0, 0};
  gradients_here_.narrow(0, 0, kept.begin).zero_();
  gradients_here_.narrow(0, kept.end, numel() - kept.end).zero_();
  for (SlotState& slot : slots) slot.unreduced = true;
}

void Chunk::end_keeping() {
  for (; !keeping_.empty(); keeping_.pop_front()) {
    Keeping& span = keeping_.front();
    if (!span.kept) {
      span.copy.precede_current_stream();
      continue;
    }
    const at::Tensor& kept = span.kept->tensor();
    span.copy.wait();
    if (span.sums.defined()) ops::accumulate(kept, span.sums);
    if (span.counted) squared_norm_ += counted_squares(span.kept->range(), kept);
    span.kept->leave();
    if (tiers_.gradients == Tier::nvme) memory_.gradient_writes.add(std::move(*span.kept));
  }
}

bool Chunk::reduces_tied_apart() const {
  if (plan.placement.tied_stage != plan.placement.stage) return false;
  return gradients_are_transient() && std::ranges::any_of(plan.slots, [](const Slot& slot) {
           return slot.parameter->tied && slot.parameter->block;
         });
}

std::vector<Range> Chunk::held_spans() const {
  return spans_of(held, held.begin);
}

ops::PendingSum Chunk::counted_squares(const Range& span, const at::Tensor& sums) const {
  const Range counted = intersect(span, part);
  if (counted.empty()) return 0;
  return ops::squared_norm(sums.narrow(0, counted.begin - span.begin, counted.size()));
}

void Chunk::accumulate_reduced_gradients(const Range& span, bool last) {
  const at::Tensor sums = gradients_here_.narrow(0, span.begin, span.size());
  if (tiers_.gradients == Tier::device) {
    const at::Tensor kept = gradients_->memory(span);
    if (reduced_) {
      ops::accumulate(kept, sums);
    } else {
      kept.copy_(sums);
    }
    if (last) squared_norm_ += counted_squares(span, kept);
    return;
  }
  TierPools& pools = memory_.pools;
  CopyStreams& copies = pools.copies();
  if (!reduced_ && last && copies.are_asynchronous()) squared_norm_ += counted_squares(span, sums);
  if (!reduced_ && tiers_.gradients == Tier::host && copies.are_asynchronous()) {
    keeping_.push_back({gradients_->copy_from_device(span, sums)});
    return;
  }
  Keeping& keeping = keeping_.emplace_back();
  keeping.kept.emplace(*gradients_, span, Tier::host, reduced_ ? Access::update : Access::write,
                       Counted::no);
  keeping.counted = last && (reduced_ || !copies.are_asynchronous());
  if (!reduced_) {
    keeping.copy = copies.to_host(keeping.kept->tensor(), sums);
  } else if (copies.are_asynchronous()) {
    keeping.sums = pools.host_tensor(sums.numel(), sums.scalar_type());
    keeping.copy = copies.to_host(keeping.sums, sums);
  } else {
    keeping.sums = sums;
  }
}

void Chunk::sum_over_ends() {
  if (ranks.ends.size() == 1) return;
  if (gradients_are_transient()) squared_norm_ = 0;
  for (const Range& span : held_spans()) {
    TierTransfer visit(*gradients_, span,
                       tiers_.gradients == Tier::device ? Tier::device : Tier::host, Access::update,
                       Counted::yes);
    const at::Tensor stored = visit.tensor().contiguous();
    const at::Tensor sums = for_calls_of(ranks.ends, stored);
    comm::all_reduce(sums, ranks.ends, comm::Reason::gradient);
    if (!sums.is_same(stored)) stored.copy_(sums);
    if (gradients_are_transient()) squared_norm_ += counted_squares(span, sums);
    visit.leave();
    if (tiers_.gradients == Tier::nvme) memory_.gradient_writes.add(std::move(visit));
  }
}

void Chunk::release_gradients() {
  reduced_ = false;
  whole_gradients_->give();
  if (kept_gradients_) kept_gradients_->give();
  for (SlotState& slot : slots) slot.written = slot.unreduced = false;
}

// Sums span by span in every tier, so that the result has the same bits.
ops::PendingSum Chunk::squared_gradient_norm() const {
  if (gradients_are_transient()) return squared_norm_;
  ops::PendingSum sum;
  for (const Range& span : held_spans()) {
    const Range counted = intersect(span, part);
    if (!counted.empty()) sum += ops::squared_norm(gradients_->memory(counted));
  }
  return sum;
}

StoredTensor& Chunk::updated_weights() {
  if (!gathers_updates() || !whole_weights_) return *weights_;
  if (!weights_on_device_) {
    whole_weights_->take();
    weights_on_device_ = std::make_unique<StoredTensor>(weights_here_, Range{0, numel()},
                                                        MemoryKind::parameters, memory_.pools);
  }
  return *weights_on_device_;
}

void Chunk::begin_weight_gather() {
  gather_ = comm::all_gather_async(weights_here_, partition.counts(), ranks.shards,
                                   comm::Reason::parameter);
}

void Chunk::finish_weight_gather() {
  if (!weights_on_device_) return;
  gather_.wait();
  if (tiers_.parameters == Tier::host) {
    weights_->copy_from_device({0, numel()}, weights_here_).precede_current_stream();
  } else {
    for (const Range& span : spans_of({0, numel()}, 0)) {
      TierTransfer visit(*weights_, span, Tier::host, Access::write, Counted::no);
      memory_.pools.copies()
          .to_host(visit.tensor(), weights_here_.narrow(0, span.begin, span.size()))
          .wait();
      visit.leave();
      visit.finish();
    }
  }
  memory_.pools.count_to(tiers_.parameters, MemoryKind::parameters, weights_->bytes());
  weights_on_device_ = nullptr;
  whole_weights_->give();
}

void Chunk::wait_for_collectives() {
  reduction_.wait();
  wait_for_weights();
}

}  // namespace colossal::memory
