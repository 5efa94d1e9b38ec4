#include "colossal/memory/parameter_store.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/layout/initial_values.h"
#include "colossal/memory/memory_ledger.h"
#include "colossal/ops/product/packed_weight.h"
#include "colossal/parallel/collectives.h"

namespace colossal::memory {

ParameterStore::ParameterStore(nn::ParameterList parameters, const ParallelContext& context,
                               std::shared_ptr<const optim::ParameterGroups> optimizers,
                               const ChunkOptions& options)
    : parameters_(std::move(parameters)),
      context_(context),
      optimizers_(std::move(optimizers)),
      options_(options),
      memory_(context.device(), options.tiers.nvme_path) {
  // Gradients and gathered weights are allocated and freed in each step. These allocators keep
  // their pages, whether or not the memory is counted.
  install_allocators();
  const int tensor_parts = context.strategy().tp;
  std::vector<ChunkPlan> plans =
      plan_chunks(parameters_here(), options.working, options.chunk_bytes, tensor_parts,
                  [&](const nn::Parameter& parameter) { return optimizer_of(parameter); });
  const std::vector<ChunkTiers> tiers = tiers_of(plans);
  for (size_t i = 0; i < plans.size(); ++i) {
    nn::Placement& placement = plans[i].placement;
    const comm::Group& group = placement.reduction ? *placement.reduction : context.data_group();
    const bool at_both_ends = placement.tied_stage && context.tied_table_group().size() > 1;
    if (at_both_ends) {  // the rank of the first stage counts and writes
      placement.num_replicas *= 2;
      placement.replica = 2 * placement.replica + context.tied_table_group().rank();
    }
    const int stage = stage_here(placement);
    owned_.push_back(
        std::make_unique<Chunk>(std::move(plans[i]), stage,
                                ChunkRanks{context.shard_group(group), context.replica_group(group),
                                           at_both_ends ? context.tied_table_group() : alone_},
                                options, context.strategy().zero, tiers[i], memory_));
    all_.push_back(owned_.back().get());
  }
  memory_.pools.open_swap();
  for (size_t i = 0; i < owned_.size(); ++i) attach(static_cast<int>(i));
  std::ranges::copy_if(all_, std::back_inserter(trained_),
                       [](const Chunk* chunk) { return chunk->plan.trainable; });
}

const optim::Optimizer* ParameterStore::optimizer_of(const nn::Parameter& parameter) const {
  return parameter.trainable ? optimizers_->rule(parameter).optimizer : nullptr;
}

// Returns the stage of this rank whose backward passes bring the parameter's last gradient of a
// micro-batch, or -1 if only other ranks hold the parameter.
int ParameterStore::stage_here(const nn::Placement& placement) const {
  if (context_.holds_stage(placement.stage)) return placement.stage;
  const int tied = placement.tied_stage.value_or(-1);
  return tied >= 0 && context_.holds_stage(tied) ? tied : -1;
}

nn::ParameterList ParameterStore::parameters_here() const {
  nn::ParameterList here;
  std::ranges::copy_if(
      parameters_, std::back_inserter(here),
      [&](const nn::ParameterHandle& parameter) { return stage_here(parameter->placement) >= 0; });
  return here;
}

// Chooses the tiers of each chunk. The shares of a kind divide its bytes on this rank, in order of
// use.
std::vector<ChunkTiers> ParameterStore::tiers_of(const std::vector<ChunkPlan>& plans) const {
  int64_t total = 0, total_trainable = 0;
  for (const ChunkPlan& plan : plans) {
    total += plan.global_bytes();
    if (plan.trainable) total_trainable += plan.global_bytes();
  }
  std::vector<ChunkTiers> tiers;
  int64_t begin = 0, begin_trainable = 0;
  for (const ChunkPlan& plan : plans) {
    ChunkTiers& made = tiers.emplace_back();
    made.parameters = options_.tiers.parameters.tier_of(begin, begin + plan.global_bytes(), total);
    begin += plan.global_bytes();
    if (!plan.trainable) continue;
    const int64_t end = begin_trainable + plan.global_bytes();
    made.gradients = options_.tiers.gradients.tier_of(begin_trainable, end, total_trainable);
    made.optimizer = options_.tiers.optimizer.tier_of(begin_trainable, end, total_trainable);
    begin_trainable = end;
  }
  return tiers;
}

// Makes each parameter a view of the chunk's storage. A view made by set_() has its own version
// counter. So autograd does not take the optimizer's writes for writes to saved tensors of other
// parameters.
void ParameterStore::attach(int index) {
  Chunk& chunk = *owned_[index];
  chunk.take_weights();
  for (size_t slot = 0; slot < chunk.plan.slots.size(); ++slot) {
    const Slot& place = chunk.plan.slots[slot];
    nn::Parameter& parameter = *place.parameter;
    places_[&parameter] = {&chunk, slot, index};
    const auto make_view = [&] {
      const std::vector<int64_t> shape = parameter.stored_shape();
      at::Tensor view = at::empty({0}, chunk.whole_weights().options());
      view.set_(chunk.whole_weights().storage(), place.offset, shape,
                c10::contiguous_strides(shape));
      return view;
    };
    if (parameter.tensor.defined()) {
      // A foreign module holds this tensor object: move its data here, and keep the object.
      load(parameter, 0, parameter.tensor.detach().contiguous().view(-1));
      parameter.tensor.set_data(make_view());
    } else {
      parameter.tensor = make_view();
    }
    parameter.tensor.set_requires_grad(parameter.trainable);
    if (!parameter.tied) continue;
    parameter.tied_tensor = make_view();
    parameter.tied_tensor.set_requires_grad(parameter.trainable);
  }
  storages_[chunk.whole_weights().storage().unsafeGetStorageImpl()] = index;
  if (chunk.weights_are_transient()) chunk.release_weights();
}

bool ParameterStore::is_weight(const at::Tensor& tensor) const {
  return tensor.has_storage() && storages_.contains(tensor.storage().unsafeGetStorageImpl());
}

bool ParameterStore::is_transient(const at::Tensor& tensor) const {
  return is_weight(tensor) && owned_[chunk_of(tensor)]->weights_are_transient();
}

void ParameterStore::initialise(uint64_t seed, bool also_frozen) {
  at::NoGradGuard no_grad;
  for (auto& chunk : owned_) {
    if (!also_frozen && !chunk->plan.trainable) continue;
    if (chunk->plan.type == at::kByte) {
      for (const Slot& slot : chunk->plan.slots) pack_initial_values(*slot.parameter, seed);
      continue;
    }
    for (size_t slot = 0; slot < chunk->slots.size(); ++slot) {
      const Range mine = intersect(chunk->range_of(slot), chunk->shard);
      if (mine.empty()) continue;
      const nn::Parameter& parameter = *chunk->plan.slots[slot].parameter;
      const int64_t begin = mine.begin - chunk->plan.slots[slot].offset;
      // Values are first rounded to the master's type, so that a bf16 run begins with the masters
      // of an fp32 run.
      at::Tensor values =
          at::empty({mine.size()}, chunk->whole_weights().options().dtype(options_.master));
      fill_initial_values(values, parameter, begin, seed);
      chunk->store(mine.begin, values);
    }
  }
  for (auto& chunk : owned_) {
    if (also_frozen || chunk->plan.trainable) chunk->gather_stored();
  }
}

void ParameterStore::pack_initial_values(const nn::Parameter& parameter, uint64_t seed) {
  const at::Tensor values = at::empty({parameter.local_numel()}, options_.master);
  fill_initial_values(values, parameter, 0, seed);
  store_packed(parameter, values.view(parameter.local_shape()));
}

void ParameterStore::store_packed(const nn::Parameter& parameter, const at::Tensor& values) {
  const ops::PackedLayout& layout = *parameter.packed;
  const bool in_out = parameter.product == nn::WeightOrder::in_out;
  const at::Tensor oriented = in_out ? values.transpose(-2, -1) : values;
  const bool is_stack = oriented.dim() == 3;
  const at::Tensor numbers = is_stack ? oriented.flatten(0, 1) : oriented;
  const at::Tensor maxima = ops::block_maxima(numbers, layout);
  // A block that shares a scale may be divided between the ranks that share a weight: all need the
  // maxima of whole blocks.
  const std::vector<const comm::Group*> sharing =
      is_stack ? std::vector{&context_.expert_group(), &context_.expert_parts_group()}
               : std::vector{&context_.group(Axis::tp)};
  for (const comm::Group* group : sharing) {
    if (group->size() > 1) parallel::max_over_ranks(maxima.view(-1), *group);
  }
  store_weights(parameter, 0, ops::pack(numbers, maxima, layout));
}

void ParameterStore::load(const nn::Parameter& parameter, int64_t begin, const at::Tensor& values) {
  if (!is_here(parameter)) return;
  at::NoGradGuard no_grad;
  if (parameter.packed) {
    COLOSSAL_CHECK(begin == 0 && values.numel() == parameter.numel(),
                   "elements [{}, {}) of {}, which is packed as a whole", begin,
                   begin + values.numel(), parameter.name);
    const at::Tensor here = at::empty({parameter.local_numel()}, values.options());
    parameter.for_each_run({0, here.numel()}, [&](const nn::Parameter::Run& run) {
      here.narrow(0, run.local_begin, run.count).copy_(values.narrow(0, run.begin, run.count));
    });
    return store_packed(parameter, here.view(parameter.local_shape()));
  }
  const auto [chunk, slot, index] = places_.at(&parameter);
  const int64_t offset = chunk->plan.slots[slot].offset;
  const Range given{begin, begin + values.numel()};
  parameter.for_each_run({0, parameter.local_numel()}, [&](const nn::Parameter::Run& run) {
    const Range taken = intersect({run.begin, run.begin + run.count}, given);
    if (taken.empty()) return;
    chunk->store(offset + run.local_begin + taken.begin - run.begin,
                 values.narrow(0, taken.begin - begin, taken.size()));
  });
}

Range ParameterStore::kept_of(const nn::Parameter& parameter, Range in_chunk) const {
  const auto [chunk, slot, index] = places_.at(&parameter);
  const int64_t offset = chunk->plan.slots[slot].offset;
  const Range kept = intersect(chunk->range_of(slot), in_chunk);
  return {kept.begin - offset, kept.end - offset};
}

Range ParameterStore::kept_weights(const nn::Parameter& parameter) const {
  if (!is_here(parameter)) return {};
  return kept_of(parameter, places_.at(&parameter).chunk->weights().covers());
}

Range ParameterStore::kept_state(const nn::Parameter& parameter) const {
  if (!is_here(parameter)) return {};
  return kept_of(parameter, places_.at(&parameter).chunk->held);
}

void ParameterStore::store_weights(const nn::Parameter& parameter, int64_t begin,
                                   const at::Tensor& values) {
  const auto [chunk, slot, index] = places_.at(&parameter);
  chunk->store(chunk->plan.slots[slot].offset + begin, values);
}

void ParameterStore::store_state(const nn::Parameter& parameter, size_t state, int64_t begin,
                                 const at::Tensor& values) {
  const auto [chunk, slot, index] = places_.at(&parameter);
  chunk->state()[state]->write(chunk->plan.slots[slot].offset + begin, values);
}

void ParameterStore::visit_written(const Chunk& chunk, size_t slot,
                                   const std::function<void(const OwnedShard&)>& visit) const {
  if (chunk.plan.placement.replica > 0) return;  // the first replica writes it
  const Slot& place = chunk.plan.slots[slot];
  if (place.parameter->packed)
    return;  // the folder that it was read from has the unquantized values
  const Range here = intersect(chunk.range_of(slot), chunk.part);
  place.parameter->for_each_run({here.begin - place.offset, here.end - place.offset},
                                [&](const nn::Parameter::Run& run) {
                                  const int64_t begin = place.offset + run.local_begin;
                                  visit({.parameter = &*place.parameter,
                                         .elements = {run.begin, run.begin + run.count},
                                         .chunk = &chunk,
                                         .in_chunk = {begin, begin + run.count}});
                                });
}

at::Tensor OwnedShard::master() const {
  return chunk->plan.trainable ? chunk->master().read(in_chunk) : working();
}

at::Tensor OwnedShard::gradient() const {
  return chunk->plan.trainable ? chunk->gradients().read(in_chunk) : at::Tensor();
}

void ParameterStore::for_each_checkpoint_shard(
    const std::function<void(const OwnedShard&)>& visit) const {
  for (const auto& chunk : owned_) {
    for (size_t slot = 0; slot < chunk->slots.size(); ++slot) visit_written(*chunk, slot, visit);
  }
}

void ParameterStore::for_each_checkpoint_shard(
    const nn::Parameter& parameter, const std::function<void(const OwnedShard&)>& visit) const {
  if (!is_here(parameter)) return;
  const auto [chunk, slot, index] = places_.at(&parameter);
  visit_written(*chunk, slot, visit);
}

ParameterStore::StateBytes ParameterStore::chunk_bytes(Tier tier) const {
  StateBytes bytes;
  const auto add = [&](int64_t& sum, const StoredTensor& tensor) {
    if (tensor.tier() == tier) sum += tensor.bytes();
  };
  for (const auto& chunk : owned_) {
    add(bytes.parameters, chunk->weights());
    if (!chunk->plan.trainable) continue;
    // Gradients that are not transient are stored whole.
    if (chunk->gradients_are_transient()) {
      add(bytes.gradients, chunk->gradients());
    } else if (tier == Tier::device) {
      bytes.gradients += static_cast<int64_t>(chunk->whole_gradients().nbytes());
    }
    if (chunk->has_own_masters()) add(bytes.optimizer, chunk->master());
    for (const auto& state : chunk->state()) add(bytes.optimizer, *state);
  }
  return bytes;
}

}  // namespace colossal::memory
