#include "colossal/memory/chunk_engine.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "colossal/base/error.h"
#include "colossal/layout/initial_values.h"
#include "colossal/memory/memory_ledger.h"
#include "colossal/ops/optimizer_kernels.h"
#include "colossal/ops/product/packed_weight.h"
#include "colossal/parallel/collectives.h"

namespace colossal::memory {

namespace {

nn::ParameterList frozen(nn::ParameterList parameters) {
  for (nn::ParameterHandle& parameter : parameters) parameter->trainable = false;
  return parameters;
}

// Whole gradients that are being reduced, besides the one that is being filled.
constexpr size_t kReductionsUnderWay = 1;

}  // namespace

// Collects a parameter's gradient as soon as autograd has completed it.
class ChunkEngine::GradientHook : public torch::autograd::PostAccumulateGradHook {
 public:
  GradientHook(ChunkEngine& engine, Chunk& chunk, size_t slot, bool tied)
      : engine_(engine), chunk_(chunk), slot_(slot), tied_(tied) {}
  void operator()(const at::Tensor& leaf) override {
    engine_.collect_gradient(chunk_, slot_, tied_, leaf);
  }

 private:
  ChunkEngine& engine_;
  Chunk& chunk_;
  size_t slot_;
  bool tied_;
};

ChunkEngine::ChunkEngine(nn::ParameterList parameters, const ParallelContext& context,
                         const ChunkOptions& options, const OrderOfStages& order)
    : ChunkEngine(frozen(std::move(parameters)), context, nullptr, options, order) {}

ChunkEngine::ChunkEngine(nn::ParameterList parameters, const ParallelContext& context,
                         std::shared_ptr<const optim::ParameterGroups> optimizers,
                         const ChunkOptions& options, const OrderOfStages& order)
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
  std::vector<Chunk*> all;
  for (size_t i = 0; i < plans.size(); ++i) {
    nn::Placement& placement = plans[i].placement;
    const comm::Group& group = placement.reduction ? *placement.reduction : context.data_group();
    const bool at_both_ends = placement.tied_stage && context.tied_table_group().size() > 1;
    if (at_both_ends) {  // the rank of the first stage counts and writes
      placement.num_replicas *= 2;
      placement.replica = 2 * placement.replica + context.tied_table_group().rank();
    }
    const int stage = stage_here(placement);
    chunks_.push_back(
        std::make_unique<Chunk>(std::move(plans[i]), stage,
                                ChunkRanks{context.shard_group(group), context.replica_group(group),
                                           at_both_ends ? context.tied_table_group() : alone_},
                                options, context.strategy().zero, tiers[i], memory_));
    all.push_back(chunks_.back().get());
  }
  memory_.pools.open_swap();
  for (size_t i = 0; i < chunks_.size(); ++i) attach(static_cast<int>(i));
  fetcher_ = std::make_unique<ChunkFetcher>(all, context.stage_group(), tensor_parts,
                                            options.window_bytes, order);
  for (auto& chunk : chunks_) {
    if (chunk->plan.trainable) trained_.push_back(chunk.get());
  }
  std::sort(trained_.begin(), trained_.end(),
            [](const Chunk* a, const Chunk* b) { return a->plan.first_use > b->plan.first_use; });
  for (Chunk* chunk : trained_) {
    if (chunk->reduces_tied_apart()) {
      launch_orders_[chunk->stage].push_back({chunk, /*tied=*/true});
    }
  }
  for (Chunk* chunk : trained_) launch_orders_[chunk->stage].push_back({chunk, /*tied=*/false});
  make_updates();
}

const optim::Optimizer* ChunkEngine::optimizer_of(const nn::Parameter& parameter) const {
  return parameter.trainable ? optimizers_->rule(parameter).optimizer : nullptr;
}

void ChunkEngine::make_updates() {
  std::vector<Chunk*> with_sums, with_matrices;
  for (auto& chunk : chunks_) {
    if (!chunk->plan.trainable) continue;
    if (chunk->plan.optimizer->as_tensor_optimizer()) with_sums.push_back(chunk.get());
    if (chunk->plan.optimizer->as_matrix_optimizer()) with_matrices.push_back(chunk.get());
  }
  const auto optimizer_of_parameter = [&](const nn::Parameter& parameter) {
    return optimizer_of(parameter);
  };
  const bool any_sums = std::ranges::any_of(parameters_, [&](const nn::ParameterHandle& parameter) {
    const optim::Optimizer* optimizer = optimizer_of(*parameter);
    return optimizer && optimizer->as_tensor_optimizer();
  });
  if (any_sums) {  // on any rank: all take part in the sums
    tensor_updates_ = std::make_unique<TensorUpdates>(
        parameters_, optimizer_of_parameter, std::move(with_sums), context_, options_.master);
  }
  if (!with_matrices.empty()) {
    matrix_updates_ =
        std::make_unique<MatrixUpdates>(std::move(with_matrices), context_, options_.master);
  }
}

// Returns the stage of this rank whose backward passes bring the parameter's last gradient of a
// micro-batch, or -1 if only other ranks hold the parameter.
int ChunkEngine::stage_here(const nn::Placement& placement) const {
  if (context_.holds_stage(placement.stage)) return placement.stage;
  const int tied = placement.tied_stage.value_or(-1);
  return tied >= 0 && context_.holds_stage(tied) ? tied : -1;
}

nn::ParameterList ChunkEngine::parameters_here() const {
  nn::ParameterList here;
  std::ranges::copy_if(
      parameters_, std::back_inserter(here),
      [&](const nn::ParameterHandle& parameter) { return stage_here(parameter->placement) >= 0; });
  return here;
}

ChunkEngine::~ChunkEngine() {
  // Operations under way must end before their memory is freed. Their errors are dropped: they
  // matter to a step only.
  const auto end = [](const auto& wait) {
    try {
      wait();
    } catch (const Error&) {
    }
  };
  for (auto& chunk : chunks_) end([&] { chunk->wait_for_collectives(); });
  end([&] { memory_.gradient_writes.finish(); });
  for (nn::ParameterHandle& parameter : parameters_) {
    parameter->residency = nullptr;
    for (const at::Tensor& leaf : {parameter->tensor, parameter->tied_tensor}) {
      if (leaf.defined()) torch::autograd::impl::set_post_acc_grad_hooks(leaf, nullptr);
    }
  }
}

// Chooses the tiers of each chunk. The shares of a kind divide its bytes on this rank, in order of
// use.
std::vector<ChunkTiers> ChunkEngine::tiers_of(const std::vector<ChunkPlan>& plans) const {
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
void ChunkEngine::attach(int index) {
  Chunk& chunk = *chunks_[index];
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
    const auto train = [&](const at::Tensor& leaf, bool tied) {
      leaf.set_requires_grad(parameter.trainable);
      if (!parameter.trainable) return;
      torch::autograd::impl::set_post_acc_grad_hooks(
          leaf, std::make_unique<GradientHook>(*this, chunk, slot, tied));
    };
    if (parameter.tensor.defined()) {
      // A foreign module holds this tensor object: move its data here, and keep the object.
      load(parameter, 0, parameter.tensor.detach().contiguous().view(-1));
      parameter.tensor.set_data(make_view());
    } else {
      parameter.tensor = make_view();
    }
    train(parameter.tensor, /*tied=*/false);
    if (parameter.tied) {
      parameter.tied_tensor = make_view();
      train(parameter.tied_tensor, /*tied=*/true);
    }
    parameter.residency = this;
  }
  storages_[chunk.whole_weights().storage().unsafeGetStorageImpl()] = index;
  if (chunk.weights_are_transient()) chunk.release_weights();
}

void ChunkEngine::before_use(nn::Parameter& parameter) {
  fetcher_->before_use(places_.at(&parameter).index);
}

void ChunkEngine::before_use_of(nn::Parameter& parameter, const std::vector<int64_t>& counts) {
  const Place& place = places_.at(&parameter);
  fetcher_->before_use_of(place.index, place.slot, counts);
}

void ChunkEngine::after_use(nn::Parameter& parameter) {
  fetcher_->after_use(places_.at(&parameter).index);
}

bool ChunkEngine::is_weight(const at::Tensor& tensor) const {
  return tensor.has_storage() && storages_.contains(tensor.storage().unsafeGetStorageImpl());
}

bool ChunkEngine::is_transient(const at::Tensor& tensor) const {
  return weights_are_transient() && is_weight(tensor) &&
         chunks_[chunk_of(tensor)]->weights_are_transient();
}

void ChunkEngine::initialise(uint64_t seed, bool also_frozen) {
  at::NoGradGuard no_grad;
  for (auto& chunk : chunks_) {
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
  for (auto& chunk : chunks_) {
    if (also_frozen || chunk->plan.trainable) chunk->gather_stored();
  }
}

void ChunkEngine::pack_initial_values(const nn::Parameter& parameter, uint64_t seed) {
  const at::Tensor values = at::empty({parameter.local_numel()}, options_.master);
  fill_initial_values(values, parameter, 0, seed);
  store_packed(parameter, values.view(parameter.local_shape()));
}

void ChunkEngine::store_packed(const nn::Parameter& parameter, const at::Tensor& values) {
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

void ChunkEngine::load(const nn::Parameter& parameter, int64_t begin, const at::Tensor& values) {
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

Range ChunkEngine::kept_of(const nn::Parameter& parameter, Range in_chunk) const {
  const auto [chunk, slot, index] = places_.at(&parameter);
  const int64_t offset = chunk->plan.slots[slot].offset;
  const Range kept = intersect(chunk->range_of(slot), in_chunk);
  return {kept.begin - offset, kept.end - offset};
}

Range ChunkEngine::kept_weights(const nn::Parameter& parameter) const {
  if (!is_here(parameter)) return {};
  return kept_of(parameter, places_.at(&parameter).chunk->weights().covers());
}

Range ChunkEngine::kept_state(const nn::Parameter& parameter) const {
  if (!is_here(parameter)) return {};
  return kept_of(parameter, places_.at(&parameter).chunk->held);
}

void ChunkEngine::store_weights(const nn::Parameter& parameter, int64_t begin,
                                const at::Tensor& values) {
  const auto [chunk, slot, index] = places_.at(&parameter);
  chunk->store(chunk->plan.slots[slot].offset + begin, values);
}

void ChunkEngine::store_state(const nn::Parameter& parameter, size_t state, int64_t begin,
                              const at::Tensor& values) {
  const auto [chunk, slot, index] = places_.at(&parameter);
  chunk->state()[state]->write(chunk->plan.slots[slot].offset + begin, values);
}

void ChunkEngine::begin_step() {
  memory_.pools.reset_peaks();
  for (Chunk* chunk : trained_) chunk->release_gradients();
}

void ChunkEngine::begin_backward(bool last, int stage) {
  begin_backward_weight(last, stage);
  fetcher_->begin_backward(stage);
}

void ChunkEngine::begin_backward_weight(bool last, int stage) {
  // Finish the reductions of the previous pass: this one fills their buffers again.
  while (!reducing_.empty()) finish_oldest_reduction();
  last_pass_ = last;
  stage_ = stage;
  launch_order_ = &launch_orders_[stage];
  launched_ = 0;
  for (Chunk* chunk : trained_) expect_gradients(*chunk);
}

void ChunkEngine::begin_backward_input(int stage, HeldGradients& held) {
  held_ = &held;
  fetcher_->begin_backward(stage);
}

void ChunkEngine::end_backward_input() {
  held_ = nullptr;
  fetcher_->end();
}

void ChunkEngine::take(HeldGradients held) {
  for (HeldGradients::Held& each : held.held_) {
    take_gradient(*each.chunk, each.slot, each.tied, std::move(each.gradient));
  }
}

// Sets which gradients the pass that begins will bring: those of its stage's layers.
void ChunkEngine::expect_gradients(Chunk& chunk) {
  chunk.pending = chunk.pending_tied = 0;
  for (size_t slot = 0; slot < chunk.slots.size(); ++slot) {
    const nn::Placement& placement = chunk.plan.slots[slot].parameter->placement;
    Chunk::SlotState& state = chunk.slots[slot];
    state.pending = placement.stage == stage_;
    state.pending_tied = placement.tied_stage == stage_;
    chunk.pending += (state.pending ? 1 : 0) + (state.pending_tied ? 1 : 0);
    chunk.pending_tied += state.pending_tied ? 1 : 0;
  }
}

bool ChunkEngine::reduces_now(const Chunk& chunk) const {
  return last_pass_ || (chunk.reduces_each_micro_batch() && !options_.reduce_once_per_step);
}

void ChunkEngine::collect_gradient(Chunk& chunk, size_t slot, bool tied, const at::Tensor& leaf) {
  if (!leaf.grad().defined()) return;  // the computation of this gradient is deferred
  at::Tensor gradient = std::move(leaf.mutable_grad());
  if (held_) {
    held_->held_.push_back({&chunk, slot, tied, std::move(gradient)});
  } else {
    take_gradient(chunk, slot, tied, std::move(gradient));
  }
}

void ChunkEngine::take_gradient(Chunk& chunk, size_t slot, bool tied, at::Tensor gradient) {
  at::NoGradGuard no_grad;
  Chunk::SlotState& state = chunk.slots[slot];
  const Slot& place = chunk.plan.slots[slot];
  bool& pending = tied ? state.pending_tied : state.pending;
  COLOSSAL_CHECK(pending, "parameter {} had two gradients of one layer in one backward",
                 place.parameter->name);
  if (!chunk.adopt_gradient(gradient)) {
    chunk.take_gradients();
    // Copying here and dropping autograd's tensor saves one pass over memory, compared with letting
    // autograd add to a zeroed view. It also lets bf16 gradients accumulate in fp32.
    const at::Tensor flat = gradient.contiguous().view(-1);
    const at::Tensor target = chunk.whole_gradients().narrow(0, place.offset, place.numel);
    if (state.unreduced) {
      ops::accumulate(target, flat);
    } else {
      ops::convert_copy(target, flat);
    }
  }
  gradient.reset();
  state.written = state.unreduced = true;
  pending = false;
  --chunk.pending;
  if (tied) --chunk.pending_tied;
  launch_ready_chunks();
}

void ChunkEngine::launch_ready_chunks() {
  while (launched_ < launch_order_->size() && (*launch_order_)[launched_].ready()) {
    const Launch& next = (*launch_order_)[launched_++];
    if (reduces_now(*next.chunk)) launch(next);
  }
}

void ChunkEngine::launch(const Launch& next) {
  at::NoGradGuard no_grad;
  Chunk& chunk = *next.chunk;
  chunk.begin_reduction();
  if (launched_last_) launched_last_->continue_reduction();
  launched_last_ = &chunk;
  if (!chunk.gradients_are_transient()) return;
  reducing_.push_back(next);
  // After the last tied gradient, finish all reductions: the same chunks' other gradients come
  // next.
  const bool last_tied = next.tied && !(*launch_order_)[launched_].tied;
  const size_t kept = last_tied ? 0 : kReductionsUnderWay;
  while (reducing_.size() > kept) finish_oldest_reduction();
}

void ChunkEngine::finish_oldest_reduction() {
  at::NoGradGuard no_grad;
  const auto [chunk, tied] = reducing_.front();
  chunk->finish_reduction(last_pass_ && !tied);
  reducing_.pop_front();
}

void ChunkEngine::end_backward() {
  for (Chunk* chunk : trained_) chunk->pending = chunk->pending_tied = 0;
  launch_ready_chunks();
  fetcher_->end();
}

void ChunkEngine::finish_reduction() {
  launched_last_ = nullptr;
  while (!reducing_.empty()) finish_oldest_reduction();
  for (Chunk* chunk : trained_) {
    if (!chunk->gradients_are_transient()) chunk->finish_reduction(/*last=*/true);
  }
  memory_.gradient_writes.finish();
  for (Chunk* chunk : trained_) chunk->sum_over_ends();
  memory_.gradient_writes.finish();
}

double ChunkEngine::squared_gradient_norm() const {
  double sum = 0;
  for (const Chunk* chunk : trained_) {
    if (chunk->plan.placement.replica > 0) continue;  // the first replica counts it
    sum += chunk->squared_gradient_norm();
  }
  return sum;
}

std::vector<double> ChunkEngine::used() const {
  std::vector<double> used;
  for (const nn::ParameterHandle& parameter : parameters_) {
    const auto place = places_.find(&*parameter);
    const bool here = place != places_.end();
    used.push_back(here && place->second.chunk->slots[place->second.slot].written ? 1 : 0);
  }
  return used;
}

std::string ChunkEngine::first_non_finite_gradient() const {
  for (const nn::ParameterHandle& parameter : parameters_) {
    if (!is_here(*parameter)) continue;
    const auto [chunk, slot, index] = places_.at(&*parameter);
    const Range here = intersect(chunk->range_of(slot), chunk->part);
    if (here.empty() || !chunk->plan.trainable) continue;
    if (!ops::all_finite(chunk->gradients().read(here))) return parameter->name;
  }
  return "";
}

void ChunkEngine::update(const Update& update, const std::vector<bool>& used_anywhere) {
  at::NoGradGuard no_grad;
  std::unordered_map<const nn::Parameter*, optim::UpdateScalars> scalars;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    // A dry run does not know what other ranks used: all that they train.
    if (!used_anywhere[i] && !context_.device().is_meta()) continue;
    const nn::Parameter& parameter = *parameters_[i];
    const optim::UpdateRule rule = optimizers_->rule(parameter);
    scalars[&parameter] = {.learning_rate = update.learning_rate * rule.learning_rate_scale,
                           .weight_decay = rule.weight_decay,
                           .gradient_scale = update.gradient_scale,
                           .update = ++updates_[&parameter]};
  }
  const auto scalars_of =
      [&](const nn::Parameter& parameter) -> std::optional<optim::UpdateScalars> {
    const auto found = scalars.find(&parameter);
    return found == scalars.end() ? std::nullopt : std::optional(found->second);
  };
  if (tensor_updates_) tensor_updates_->sum(scalars_of);
  if (matrix_updates_) matrix_updates_->transform(scalars_of);
  run_updates(scalars_of);
  // Without scalars there is nothing to sum: this releases the sums, which would otherwise take
  // memory until the next update.
  if (tensor_updates_) {
    tensor_updates_->sum(
        [](const nn::Parameter&) -> std::optional<optim::UpdateScalars> { return std::nullopt; });
  }
  if (!options_.uses_parameter_handles) synchronize();
}

void ChunkEngine::run_updates(const TensorUpdates::ScalarsOf& scalars_of) {
  // In order of use, so that the weights which the next forward pass needs first are gathered
  // first.
  std::vector<Chunk*> chunks;
  for (auto& chunk : chunks_) {
    if (chunk->plan.trainable) chunks.push_back(chunk.get());
  }
  const auto run = [&](Chunk& chunk, TieredUpdate& span) {
    const optim::Optimizer& optimizer = *chunk.plan.optimizer;
    const auto scalars_of_slot = [&](size_t slot) {
      auto scalars = scalars_of(*chunk.plan.slots[slot].parameter);
      if (scalars && optimizer.as_matrix_optimizer()) scalars->gradient_scale = 1;
      return scalars;
    };
    if (optimizer.as_tensor_optimizer())
      return tensor_updates_->update(chunk, span, scalars_of_slot);
    span.run(scalars_of_slot, /*merges_slots=*/true,
             [&](const optim::Piece& piece, const optim::UpdateScalars& scalars, size_t, int64_t) {
               optimizer.update(piece, scalars);
             });
  };
  // Gathering a chunk's updated weights overlaps with updating the next chunk.
  Chunk* gathering = nullptr;
  run_passes(chunks, UpdatePhase::update, run, [&](Chunk& chunk) {
    if (!chunk.gathers_updates()) return;
    chunk.begin_weight_gather();
    if (gathering) gathering->finish_weight_gather();
    gathering = &chunk;
  });
  if (gathering) gathering->finish_weight_gather();
}

std::vector<optim::WholeState> ChunkEngine::whole_state_specs(
    const nn::Parameter& parameter) const {
  const optim::Optimizer* optimizer = optimizer_of(parameter);
  if (!optimizer) return {};
  optim::MatrixShape shape = optim::matrix_shape(parameter.shape);
  // A MatrixOptimizer gets matrices as [outputs, inputs].
  if (optimizer->as_matrix_optimizer() && parameter.product == nn::WeightOrder::in_out) {
    std::swap(shape.rows, shape.columns);
  }
  return optimizer->whole_states(shape);
}

std::vector<ChunkEngine::WholeStatePart> ChunkEngine::whole_state_parts(
    const nn::Parameter& parameter) const {
  std::vector<WholeStatePart> parts;
  if (matrix_updates_) {
    for (const MatrixUpdates::OwnedStates& owned : matrix_updates_->whole_states(parameter)) {
      for (size_t i = 0; i < owned.whole.size(); ++i) {
        parts.push_back({i, owned.matrix * owned.whole[i].numel(), owned.whole[i], true});
      }
    }
  }
  const auto* whole = tensor_updates_ ? tensor_updates_->whole_states(parameter) : nullptr;
  if (!whole) return parts;
  bool has_first_element = false;
  for_each_checkpoint_shard(parameter, [&](const OwnedShard& shard) {
    has_first_element = has_first_element || shard.elements.begin == 0;
  });
  for (size_t i = 0; i < whole->size(); ++i) {
    parts.push_back({i, 0, (*whole)[i], has_first_element});
  }
  return parts;
}

void ChunkEngine::synchronize() {
  for (auto& chunk : chunks_) chunk->wait_for_collectives();
  memory_.gradient_writes.finish();
}

std::vector<int64_t> ChunkEngine::update_counts() const {
  std::vector<int64_t> counts;
  for (const nn::ParameterHandle& parameter : parameters_) {
    if (!parameter->begins_tensor()) continue;
    const auto found = updates_.find(&*parameter);
    counts.push_back(found == updates_.end() ? 0 : found->second);
  }
  return counts;
}

void ChunkEngine::set_update_counts(const std::vector<int64_t>& counts) {
  size_t tensors = 0;
  for (const nn::ParameterHandle& parameter : parameters_) {
    if (parameter->begins_tensor()) ++tensors;
    COLOSSAL_CHECK(tensors <= counts.size(), "{} counts, parameter {} is of tensor {}",
                   counts.size(), parameter->name, tensors);
    updates_[&*parameter] = counts[tensors - 1];
  }
  COLOSSAL_CHECK(tensors == counts.size(), "{} counts, {} tensors", counts.size(), tensors);
}

void ChunkEngine::visit_written(const Chunk& chunk, size_t slot,
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

void ChunkEngine::for_each_checkpoint_shard(
    const std::function<void(const OwnedShard&)>& visit) const {
  for (const auto& chunk : chunks_) {
    for (size_t slot = 0; slot < chunk->slots.size(); ++slot) visit_written(*chunk, slot, visit);
  }
}

void ChunkEngine::for_each_checkpoint_shard(
    const nn::Parameter& parameter, const std::function<void(const OwnedShard&)>& visit) const {
  if (!is_here(parameter)) return;
  const auto [chunk, slot, index] = places_.at(&parameter);
  visit_written(*chunk, slot, visit);
}

ChunkEngine::StateBytes ChunkEngine::state_bytes(Tier tier) const {
  StateBytes bytes;
  const auto add = [&](int64_t& sum, const StoredTensor& tensor) {
    if (tensor.tier() == tier) sum += tensor.bytes();
  };
  for (const auto& chunk : chunks_) {
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
  if (tensor_updates_ && tier == Tier::device) {
    bytes.optimizer += tensor_updates_->whole_state_bytes();
  }
  if (matrix_updates_ && tier == Tier::device) {
    bytes.optimizer += matrix_updates_->whole_state_bytes();
  }
  return bytes;
}

int64_t ChunkEngine::update_bytes() const {
  int64_t bytes = 0;
  for (const auto& chunk : chunks_) {
    if (!chunk->plan.trainable) continue;
    bytes += chunk->held.size() *
             (chunk->whole_gradients().element_size() + chunk->whole_weights().element_size());
    for (const auto& state : chunk->state()) bytes += 2 * state->bytes();
    bytes += chunk->has_own_masters() ? 2 * chunk->master().bytes()
                                      : chunk->held.size() * chunk->whole_weights().element_size();
  }
  return bytes;
}

}  // namespace colossal::memory
