#include "colossal/memory/chunk_engine.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include <cmath>

#include "colossal/base/error.h"
#include "colossal/layout/initial_values.h"
#include "colossal/memory/memory_ledger.h"
#include "colossal/ops/optimizer_kernels.h"

namespace colossal::memory {

namespace {

// Blocks that wait to be lent again: as many as there are whole at once, give or take.
constexpr size_t kFreeBlocks = 3;
// Whole gradients under reduction, besides the one that is being filled.
constexpr size_t kReductionsUnderWay = 1;

}  // namespace

// Takes a parameter's gradient as soon as autograd has it whole.
class ChunkEngine::GradientHook : public torch::autograd::PostAccumulateGradHook {
 public:
  GradientHook(ChunkEngine& engine, Chunk& chunk, size_t slot)
      : engine_(engine), chunk_(chunk), slot_(slot) {}
  void operator()(const at::Tensor& parameter) override {
    engine_.collect_gradient(chunk_, slot_, parameter);
  }

 private:
  ChunkEngine& engine_;
  Chunk& chunk_;
  size_t slot_;
};

ChunkEngine::ChunkEngine(nn::ParameterList parameters, const ParallelContext& context,
                         const optim::Optimizer& optimizer, const ChunkOptions& options,
                         const std::optional<OrderOfUse>& order)
    : parameters_(std::move(parameters)),
      context_(context),
      optimizer_(optimizer),
      options_(options),
      weight_blocks_(context.device(), MemoryKind::gathered, kFreeBlocks),
      gradient_blocks_(context.device(), MemoryKind::gradients, kFreeBlocks) {
  const auto element_bytes = static_cast<int64_t>(c10::elementSize(options.working));
  const int tensor_parts = context.strategy().tp;
  std::vector<Chunk*> all;
  for (ChunkPlan& plan :
       plan_chunks(parameters_, element_bytes, options.chunk_bytes, tensor_parts)) {
    const comm::Group& group =
        plan.placement.reduction ? *plan.placement.reduction : context.data_group();
    chunks_.push_back(std::make_unique<Chunk>(
        std::move(plan), group, options, context.strategy().zero, context.device(),
        optimizer.state_names().size(), weight_blocks_, gradient_blocks_));
    attach(*chunks_.back());
    all.push_back(chunks_.back().get());
  }
  fetcher_ = std::make_unique<ChunkFetcher>(all, context.world_group(), tensor_parts,
                                            options.ahead_bytes, order);
  for (auto& chunk : chunks_) {
    if (chunk->plan.trainable) launch_order_.push_back(chunk.get());
  }
  std::sort(launch_order_.begin(), launch_order_.end(),
            [](const Chunk* a, const Chunk* b) { return a->plan.first_use > b->plan.first_use; });
}

ChunkEngine::~ChunkEngine() {
  for (auto& chunk : chunks_) {
    // A collective must not outlive the buffers that it reads. Its error was for the step to see.
    for (comm::Work* work : {&chunk->reduction, &chunk->gather}) {
      try {
        work->wait();
      } catch (const Error&) {
      }
    }
  }
  for (nn::ParameterHandle& parameter : parameters_) {
    parameter->residency = nullptr;
    if (parameter->tensor.defined()) {
      torch::autograd::impl::set_post_acc_grad_hooks(parameter->tensor, nullptr);
    }
  }
}

// Makes each parameter a view of the chunk's storage: `set_` keeps a version counter of its own, so
// that the optimizer's writes are not taken for writes to saved tensors of other parameters.
void ChunkEngine::attach(Chunk& chunk) {
  for (size_t slot = 0; slot < chunk.plan.slots.size(); ++slot) {
    const Slot& place = chunk.plan.slots[slot];
    nn::Parameter& parameter = *place.parameter;
    places_[&parameter] = {&chunk, slot, static_cast<int>(chunks_.size()) - 1};
    at::Tensor view = at::empty({0}, chunk.working.options());
    const std::vector<int64_t> shape = parameter.local_shape();
    view.set_(chunk.working.storage(), place.offset, shape, c10::contiguous_strides(shape));
    if (parameter.tensor.defined()) {
      // A foreign module holds this very tensor: its data moves here, its identity stays.
      load(parameter, 0, parameter.tensor.detach().contiguous().view(-1));
      parameter.tensor.set_data(view);
    } else {
      parameter.tensor = view;
    }
    parameter.tensor.set_requires_grad(parameter.trainable);
    parameter.residency = this;
    if (parameter.trainable) {
      torch::autograd::impl::set_post_acc_grad_hooks(
          parameter.tensor, std::make_unique<GradientHook>(*this, chunk, slot));
    }
  }
  if (!chunk.sharding.weights) return;
  sharded_storages_[chunk.working.storage().unsafeGetStorageImpl()] =
      static_cast<int>(chunks_.size()) - 1;
  chunk.whole_working->give();
}

void ChunkEngine::before_use(nn::Parameter& parameter) {
  fetcher_->before_use(places_.at(&parameter).index);
}

void ChunkEngine::after_use(nn::Parameter& parameter) {
  fetcher_->after_use(places_.at(&parameter).index);
}

bool ChunkEngine::may_be_let_go(const at::Tensor& weight) const {
  return weight.has_storage() &&
         sharded_storages_.contains(weight.storage().unsafeGetStorageImpl());
}

void ChunkEngine::initialise(uint64_t seed) {
  at::NoGradGuard no_grad;
  for (auto& chunk : chunks_) {
    for (size_t slot = 0; slot < chunk->slots.size(); ++slot) {
      const Range mine = intersect(chunk->range_of(slot), chunk->part);
      if (mine.empty()) continue;
      const nn::Parameter& parameter = *chunk->plan.slots[slot].parameter;
      const int64_t begin = mine.begin - chunk->plan.slots[slot].offset;
      // Rounded to the master's type first: a bf16 run starts from the masters of an fp32 run.
      at::Tensor values = at::empty({mine.size()}, chunk->working.options().dtype(options_.master));
      fill_initial_values(values, parameter, begin, seed);
      chunk->store(mine.begin, values);
    }
  }
  for (auto& chunk : chunks_) {
    if (chunk->sharding.weights) continue;
    comm::all_gather(chunk->working, chunk->partition.counts(), chunk->group,
                     comm::Reason::parameter);
    // At stage 0 the masters of the other ranks' parts are here too, and follow the same values.
    if (!chunk->own_masters || chunk->held == chunk->part) continue;
    comm::all_gather(chunk->master, chunk->partition.counts(), chunk->group,
                     comm::Reason::parameter);
  }
}

void ChunkEngine::load(const nn::Parameter& parameter, int64_t begin, const at::Tensor& values) {
  at::NoGradGuard no_grad;
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

void ChunkEngine::begin_step() {
  for (Chunk* chunk : launch_order_) {
    chunk->reduced = false;
    for (Chunk::SlotState& slot : chunk->slots) slot.written = slot.summed = false;
  }
}

void ChunkEngine::begin_micro_batch(bool last) {
  last_micro_batch_ = last;
  launched_ = 0;
  for (Chunk* chunk : launch_order_) {
    chunk->pending = chunk->slots.size();
    for (Chunk::SlotState& slot : chunk->slots) slot.pending = true;
  }
  fetcher_->begin_training();
}

void ChunkEngine::begin_backward() {
  // Those of the micro-batch before this one: their buffers are filled anew.
  while (!reducing_.empty()) finish_oldest_reduction();
  fetcher_->begin_backward();
}

bool ChunkEngine::reduces_now(const Chunk& chunk) const {
  return last_micro_batch_ || (chunk.sharding.gradients && !options_.accumulate_whole);
}

void ChunkEngine::collect_gradient(Chunk& chunk, size_t slot, const at::Tensor& parameter) {
  at::NoGradGuard no_grad;
  Chunk::SlotState& state = chunk.slots[slot];
  const Slot& place = chunk.plan.slots[slot];
  COLOSSAL_CHECK(state.pending, "parameter {} had two gradients in one backward",
                 place.parameter->name);
  if (chunk.whole_gradient) chunk.whole_gradient->take();
  // Copying here and dropping autograd's tensor costs one pass less than having autograd add into
  // a zeroed view, and lets a bf16 gradient accumulate in fp32.
  const at::Tensor gradient = parameter.grad().contiguous().view(-1);
  const at::Tensor target = chunk.gradient.narrow(0, place.offset, place.numel);
  if (state.summed) {
    ops::accumulate(target, gradient);
  } else {
    ops::convert_copy(target, gradient);
  }
  parameter.mutable_grad().reset();
  state.written = state.summed = true;
  state.pending = false;
  --chunk.pending;
  if (chunk.pending == 0) launch_ready_chunks();
}

void ChunkEngine::launch_ready_chunks() {
  while (launched_ < launch_order_.size() && launch_order_[launched_]->pending == 0) {
    Chunk& chunk = *launch_order_[launched_++];
    if (reduces_now(chunk)) launch(chunk);
  }
}

void ChunkEngine::launch(Chunk& chunk) {
  at::NoGradGuard no_grad;
  const comm::Reason reason = comm::Reason::gradient;
  chunk.zero_missing_gradients();
  if (!chunk.sharding.state) {
    chunk.reduction = comm::all_reduce_async(chunk.gradient, chunk.group, reason);
    return;
  }
  const at::Tensor in_place = chunk.gradient.narrow(0, chunk.part.begin, chunk.part.size());
  chunk.reduction =
      comm::reduce_scatter_async(chunk.gradient, chunk.reduced ? in_place : chunk.own_gradient,
                                 chunk.partition.counts(), chunk.group, reason);
  if (!chunk.sharding.gradients) return;
  reducing_.push_back(&chunk);
  while (reducing_.size() > kReductionsUnderWay) finish_oldest_reduction();
}

void ChunkEngine::finish_oldest_reduction() {
  at::NoGradGuard no_grad;
  Chunk& chunk = *reducing_.front();
  reducing_.pop_front();
  chunk.reduction.wait();
  if (chunk.reduced) {
    ops::accumulate(chunk.own_gradient,
                    chunk.gradient.narrow(0, chunk.part.begin, chunk.part.size()));
  }
  chunk.reduced = true;
  for (Chunk::SlotState& slot : chunk.slots) slot.summed = false;
  chunk.whole_gradient->give();
}

void ChunkEngine::end_micro_batch() {
  for (Chunk* chunk : launch_order_) chunk->pending = 0;
  launch_ready_chunks();
  fetcher_->end();
}

void ChunkEngine::finish_reduction() {
  while (!reducing_.empty()) finish_oldest_reduction();
  for (Chunk* chunk : launch_order_) chunk->reduction.wait();
}

double ChunkEngine::squared_gradient_norm() const {
  double sum = 0;
  for (const Chunk* chunk : launch_order_) {
    if (chunk->plan.placement.replica > 0) continue;  // the first replica counts them
    sum += ops::squared_norm(chunk->own_gradient);
  }
  return sum;
}

std::vector<double> ChunkEngine::used() const {
  std::vector<double> used;
  for (const nn::ParameterHandle& parameter : parameters_) {
    const auto [chunk, slot, index] = places_.at(&*parameter);
    used.push_back(chunk->slots[slot].written ? 1 : 0);
  }
  return used;
}

std::string ChunkEngine::first_non_finite_gradient() const {
  for (const nn::ParameterHandle& parameter : parameters_) {
    const auto [chunk, slot, index] = places_.at(&*parameter);
    const Range here = intersect(chunk->range_of(slot), chunk->part);
    if (here.empty() || !chunk->plan.trainable) continue;
    if (!ops::all_finite(chunk->gradient_view(here))) return parameter->name;
  }
  return "";
}

void ChunkEngine::update(const Update& update, const std::vector<bool>& used_anywhere) {
  at::NoGradGuard no_grad;
  std::unordered_map<const nn::Parameter*, bool> used;
  for (size_t i = 0; i < parameters_.size(); ++i) used[&*parameters_[i]] = used_anywhere[i];
  // In order of use: the first weights that the next forward needs are gathered first.
  for (auto& chunk : chunks_) {
    if (!chunk->plan.trainable) continue;
    Range run{0, 0};  // of slots updated alike, so that one call of the kernel serves them
    int64_t run_count = 0;
    for (size_t slot = 0; slot < chunk->slots.size(); ++slot) {
      const bool taken = used.at(&*chunk->plan.slots[slot].parameter);
      if (taken) ++chunk->slots[slot].updates;
      const int64_t count = taken ? chunk->slots[slot].updates : 0;
      const Range range = chunk->range_of(slot);
      if (count != run_count) {
        update_run(*chunk, run, run_count, update);
        run = range;
        run_count = count;
      }
      run.end = range.end;
    }
    update_run(*chunk, run, run_count, update);
    if (chunk->sharding.state && !chunk->sharding.weights) {
      chunk->gather = comm::all_gather_async(chunk->working, chunk->partition.counts(),
                                             chunk->group, comm::Reason::parameter);
    }
  }
  if (!options_.handles_used) synchronize();
}

void ChunkEngine::update_run(Chunk& chunk, Range run, int64_t count, const Update& update) {
  const Range here = intersect(run, chunk.held);
  if (here.empty() || count == 0) return;
  optim::Piece piece;
  piece.master = chunk.held_view(chunk.master, here);
  piece.gradient = chunk.gradient_view(here);
  if (chunk.own_masters) piece.working = chunk.working_view(here);
  for (const at::Tensor& state : chunk.state) piece.state.push_back(chunk.held_view(state, here));
  optimizer_.update(piece, {.learning_rate = update.learning_rate,
                            .weight_decay = chunk.plan.decayed ? update.weight_decay : 0,
                            .gradient_scale = update.gradient_scale,
                            .update = count});
}

void ChunkEngine::synchronize() {
  for (auto& chunk : chunks_) {
    chunk->reduction.wait();
    chunk->gather.wait();
  }
}

std::vector<int64_t> ChunkEngine::update_counts() const {
  std::vector<int64_t> counts;
  for (const nn::ParameterHandle& parameter : parameters_) {
    const auto [chunk, slot, index] = places_.at(&*parameter);
    counts.push_back(chunk->slots[slot].updates);
  }
  return counts;
}

void ChunkEngine::set_update_counts(const std::vector<int64_t>& counts) {
  COLOSSAL_CHECK(counts.size() == parameters_.size(), "{} counts, {} parameters", counts.size(),
                 parameters_.size());
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto [chunk, slot, index] = places_.at(&*parameters_[i]);
    chunk->slots[slot].updates = counts[i];
  }
}

void ChunkEngine::visit_pieces(bool held,
                               const std::function<void(const OwnedPiece&)>& visit) const {
  for (const auto& chunk : chunks_) {
    for (size_t slot = 0; slot < chunk->slots.size(); ++slot) visit_slot(*chunk, slot, held, visit);
  }
}

void ChunkEngine::visit_slot(const Chunk& chunk, size_t slot, bool held,
                             const std::function<void(const OwnedPiece&)>& visit) const {
  if (!held && chunk.plan.placement.replica > 0) return;  // the first replica writes
  const Slot& place = chunk.plan.slots[slot];
  const Range here = intersect(chunk.range_of(slot), held ? chunk.held : chunk.part);
  place.parameter->for_each_run(
      {here.begin - place.offset, here.end - place.offset}, [&](const nn::Parameter::Run& run) {
        visit(piece_of(chunk, *place.parameter, place.offset + run.local_begin, run));
      });
}

OwnedPiece ChunkEngine::piece_of(const Chunk& chunk, const nn::Parameter& parameter, int64_t offset,
                                 const nn::Parameter::Run& run) const {
  const Range here{offset, offset + run.count};
  OwnedPiece piece;
  piece.parameter = &parameter;
  piece.elements = {run.begin, run.begin + run.count};
  piece.working = chunk.working_view(here);
  piece.master = chunk.plan.trainable ? chunk.held_view(chunk.master, here) : piece.working;
  if (chunk.plan.trainable) piece.gradient = chunk.gradient_view(here);
  for (const at::Tensor& state : chunk.state) {
    piece.state.push_back(chunk.held_view(state, here));
  }
  return piece;
}

void ChunkEngine::for_each_written_piece(
    const std::function<void(const OwnedPiece&)>& visit) const {
  visit_pieces(false, visit);
}

void ChunkEngine::for_each_written_piece(
    const nn::Parameter& parameter, const std::function<void(const OwnedPiece&)>& visit) const {
  const auto [chunk, slot, index] = places_.at(&parameter);
  visit_slot(*chunk, slot, false, visit);
}

void ChunkEngine::for_each_held_piece(const std::function<void(const OwnedPiece&)>& visit) const {
  visit_pieces(true, visit);
}

at::Tensor ChunkEngine::gradient(const nn::Parameter& parameter) const {
  const auto [chunk, slot, index] = places_.at(&parameter);
  COLOSSAL_CHECK(!chunk->sharding.gradients, "the gradient of {} is in parts", parameter.name);
  const Slot& place = chunk->plan.slots[slot];
  return chunk->gradient.narrow(0, place.offset, place.numel).view(parameter.local_shape());
}

std::vector<ChunkEngine::ChunkSize> ChunkEngine::chunk_sizes() const {
  std::vector<ChunkSize> sizes;
  for (const auto& chunk : chunks_) {
    sizes.push_back(
        {chunk->numel(), chunk->part.size(), chunk->plan.trainable, chunk->plan.decayed});
  }
  return sizes;
}

ChunkEngine::StateBytes ChunkEngine::state_bytes() const {
  StateBytes bytes;
  for (const auto& chunk : chunks_) {
    const auto resting = [](bool sharded, const at::Tensor& whole, const at::Tensor& own) {
      return static_cast<int64_t>((sharded ? own : whole).nbytes());
    };
    bytes.parameters += resting(chunk->sharding.weights, chunk->working, chunk->own_working);
    if (!chunk->plan.trainable) continue;
    bytes.gradients += resting(chunk->sharding.gradients, chunk->gradient, chunk->own_gradient);
    if (chunk->own_masters) {
      bytes.optimizer += static_cast<int64_t>(chunk->master.nbytes());
    }
    for (const at::Tensor& state : chunk->state) {
      bytes.optimizer += static_cast<int64_t>(state.nbytes());
    }
  }
  return bytes;
}

}  // namespace colossal::memory
