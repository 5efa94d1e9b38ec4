#include "colossal/memory/chunk_engine.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include <cmath>

#include "colossal/base/error.h"
#include "colossal/layout/initial_values.h"
#include "colossal/memory/memory_ledger.h"
#include "colossal/ops/optimizer_kernels.h"

namespace colossal::memory {

struct ChunkEngine::Chunk {
  ChunkPlan plan;
  const comm::Group& group;  // the ranks that hold the same elements and see other data
  Partition partition;       // of the buffer over that group
  Range part;                // this rank's of it: written to checkpoints, counted in norms
  Range held;                // whose masters and state are here: part, or at stage 0 everything

  at::Tensor working;             // [numel]
  at::Tensor gradient;            // [numel]
  at::Tensor master;              // [held]
  std::vector<at::Tensor> state;  // [held] each

  struct SlotState {
    bool written = false;  // had a gradient in this step
    bool pending = false;  // its gradient of the last micro-batch is still to come
    int64_t updates = 0;
  };
  std::vector<SlotState> slots;
  size_t pending = 0;    // slots whose gradient is still to come
  comm::Work reduction;  // of gradients
  comm::Work gather;     // of updated weights

  Chunk(ChunkPlan made, const comm::Group& ranks, int64_t alignment, bool sharded)
      : plan(std::move(made)),
        group(ranks),
        partition(plan.numel, ranks.size(), alignment),
        part(partition.range(ranks.rank())),
        held(sharded ? part : Range{0, plan.numel}),
        slots(plan.slots.size()) {}

  Range range_of(size_t slot) const {
    return {plan.slots[slot].offset, plan.slots[slot].offset + plan.slots[slot].numel};
  }
  // Views of the elements `range` (in the chunk's count), which must lie in `held`.
  at::Tensor held_view(const at::Tensor& tensor, Range range) const {
    return tensor.narrow(0, range.begin - held.begin, range.size());
  }
};

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
                         const optim::Optimizer& optimizer, const ChunkOptions& options)
    : parameters_(std::move(parameters)),
      context_(context),
      optimizer_(optimizer),
      options_(options) {
  const auto element_bytes = static_cast<int64_t>(c10::elementSize(options.working));
  for (ChunkPlan& plan : plan_chunks(parameters_, element_bytes, options.chunk_bytes)) {
    const comm::Group& group =
        plan.placement.reduction ? *plan.placement.reduction : context.data_group();
    chunks_.push_back(std::make_unique<Chunk>(
        std::move(plan), group, alignment_elements(element_bytes), context.strategy().zero >= 1));
    allocate(*chunks_.back());
    attach(*chunks_.back());
  }
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

void ChunkEngine::allocate(Chunk& chunk) {
  const auto zeros = [&](int64_t numel, at::ScalarType type, MemoryKind kind) {
    const MemoryKindScope scope(kind);
    return at::zeros({numel}, at::TensorOptions().dtype(type).device(context_.device()));
  };
  chunk.working = zeros(chunk.plan.numel, options_.working, MemoryKind::parameters);
  if (!chunk.plan.trainable) return;
  chunk.gradient = zeros(chunk.plan.numel, options_.gradient, MemoryKind::gradients);
  chunk.master = options_.master == options_.working
                     ? chunk.working.narrow(0, chunk.held.begin, chunk.held.size())
                     : zeros(chunk.held.size(), options_.master, MemoryKind::optimizer);
  for (size_t i = 0; i < optimizer_.state_names().size(); ++i) {
    chunk.state.push_back(zeros(chunk.held.size(), options_.master, MemoryKind::optimizer));
  }
}

// Makes each parameter a view of the chunk's storage: `set_` keeps a version counter of its own, so
// that the optimizer's writes are not taken for writes to saved tensors of other parameters.
void ChunkEngine::attach(Chunk& chunk) {
  for (size_t slot = 0; slot < chunk.plan.slots.size(); ++slot) {
    const Slot& place = chunk.plan.slots[slot];
    nn::Parameter& parameter = *place.parameter;
    places_[&parameter] = {&chunk, slot};
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
}

void ChunkEngine::before_use(nn::Parameter& parameter) {
  places_.at(&parameter).chunk->gather.wait();
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
      store(*chunk, mine.begin, values);
    }
  }
  for (auto& chunk : chunks_) {
    comm::all_gather(chunk->working, chunk->partition.counts(), chunk->group,
                     comm::Reason::parameter);
    // At stage 0 the masters of the other ranks' parts are here too, and follow the same values.
    if (options_.master == options_.working || !chunk->plan.trainable) continue;
    if (chunk->held == chunk->part) continue;
    comm::all_gather(chunk->master, chunk->partition.counts(), chunk->group,
                     comm::Reason::parameter);
  }
}

void ChunkEngine::load(const nn::Parameter& parameter, int64_t begin, const at::Tensor& values) {
  at::NoGradGuard no_grad;
  const auto [chunk, slot] = places_.at(&parameter);
  const int64_t offset = chunk->plan.slots[slot].offset;
  const Range given{begin, begin + values.numel()};
  parameter.for_each_run({0, parameter.local_numel()}, [&](const nn::Parameter::Run& run) {
    const Range taken = intersect({run.begin, run.begin + run.count}, given);
    if (taken.empty()) return;
    store(*chunk, offset + run.local_begin + taken.begin - run.begin,
          values.narrow(0, taken.begin - begin, taken.size()));
  });
}

// Elements of the chunk from `offset` on: working weights, and masters where they are here.
void ChunkEngine::store(Chunk& chunk, int64_t offset, const at::Tensor& values) {
  chunk.working.narrow(0, offset, values.numel()).copy_(values);
  if (options_.master == options_.working || !chunk.plan.trainable) return;
  const Range here = intersect({offset, offset + values.numel()}, chunk.held);
  if (here.empty()) return;
  chunk.held_view(chunk.master, here).copy_(values.narrow(0, here.begin - offset, here.size()));
}

void ChunkEngine::begin_step() {
  launched_ = 0;
  for (Chunk* chunk : launch_order_) {
    for (Chunk::SlotState& slot : chunk->slots) slot.written = false;
  }
}

void ChunkEngine::begin_micro_batch(bool last) {
  last_micro_batch_ = last;
  for (Chunk* chunk : launch_order_) {
    chunk->pending = chunk->slots.size();
    for (Chunk::SlotState& slot : chunk->slots) slot.pending = true;
  }
}

void ChunkEngine::collect_gradient(Chunk& chunk, size_t slot, const at::Tensor& parameter) {
  at::NoGradGuard no_grad;
  Chunk::SlotState& state = chunk.slots[slot];
  const Slot& place = chunk.plan.slots[slot];
  COLOSSAL_CHECK(state.pending, "parameter {} had two gradients in one backward",
                 place.parameter->name);
  // Copying here and dropping autograd's tensor costs one pass less than having autograd add into
  // a zeroed view, and lets a bf16 gradient accumulate in fp32.
  const at::Tensor gradient = parameter.grad().contiguous().view(-1);
  const at::Tensor target = chunk.gradient.narrow(0, place.offset, place.numel);
  if (state.written) {
    ops::accumulate(target, gradient);
  } else {
    ops::convert_copy(target, gradient);
  }
  parameter.mutable_grad().reset();
  state.written = true;
  state.pending = false;
  --chunk.pending;
  if (last_micro_batch_ && chunk.pending == 0) launch_ready_chunks();
}

void ChunkEngine::launch_ready_chunks() {
  while (launched_ < launch_order_.size() && launch_order_[launched_]->pending == 0) {
    launch(*launch_order_[launched_++]);
  }
}

// Zeros stand for what no operator gave a gradient: another rank may have one.
void ChunkEngine::launch(Chunk& chunk) {
  at::NoGradGuard no_grad;
  for (size_t slot = 0; slot < chunk.slots.size(); ++slot) {
    const Slot& place = chunk.plan.slots[slot];
    if (!chunk.slots[slot].written) chunk.gradient.narrow(0, place.offset, place.numel).zero_();
  }
  chunk.reduction =
      context_.strategy().zero >= 1
          ? comm::reduce_scatter_async(
                chunk.gradient, chunk.gradient.narrow(0, chunk.part.begin, chunk.part.size()),
                chunk.partition.counts(), chunk.group, comm::Reason::gradient)
          : comm::all_reduce_async(chunk.gradient, chunk.group, comm::Reason::gradient);
}

void ChunkEngine::end_micro_batch() {
  if (!last_micro_batch_) return;
  for (Chunk* chunk : launch_order_) chunk->pending = 0;
  launch_ready_chunks();
}

void ChunkEngine::finish_reduction() {
  for (Chunk* chunk : launch_order_) chunk->reduction.wait();
}

double ChunkEngine::squared_gradient_norm() const {
  double sum = 0;
  for (const Chunk* chunk : launch_order_) {
    if (chunk->plan.placement.replica > 0) continue;  // the first replica counts them
    sum += ops::squared_norm(chunk->gradient.narrow(0, chunk->part.begin, chunk->part.size()));
  }
  return sum;
}

std::vector<double> ChunkEngine::used() const {
  std::vector<double> used;
  for (const nn::ParameterHandle& parameter : parameters_) {
    const auto [chunk, slot] = places_.at(&*parameter);
    used.push_back(chunk->slots[slot].written ? 1 : 0);
  }
  return used;
}

std::string ChunkEngine::first_non_finite_gradient() const {
  for (const nn::ParameterHandle& parameter : parameters_) {
    const auto [chunk, slot] = places_.at(&*parameter);
    const Range here = intersect(chunk->range_of(slot), chunk->part);
    if (here.empty() || !chunk->plan.trainable) continue;
    if (!ops::all_finite(chunk->gradient.narrow(0, here.begin, here.size())))
      return parameter->name;
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
    if (context_.strategy().zero >= 1) {
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
  piece.gradient = chunk.gradient.narrow(0, here.begin, here.size());
  if (options_.master != options_.working) {
    piece.working = chunk.working.narrow(0, here.begin, here.size());
  }
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
    const auto [chunk, slot] = places_.at(&*parameter);
    counts.push_back(chunk->slots[slot].updates);
  }
  return counts;
}

void ChunkEngine::set_update_counts(const std::vector<int64_t>& counts) {
  COLOSSAL_CHECK(counts.size() == parameters_.size(), "{} counts, {} parameters", counts.size(),
                 parameters_.size());
  for (size_t i = 0; i < counts.size(); ++i) {
    const auto [chunk, slot] = places_.at(&*parameters_[i]);
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
  piece.working = chunk.working.narrow(0, here.begin, here.size());
  piece.master = chunk.plan.trainable ? chunk.held_view(chunk.master, here) : piece.working;
  if (chunk.plan.trainable) piece.gradient = chunk.gradient.narrow(0, here.begin, here.size());
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
  const auto [chunk, slot] = places_.at(&parameter);
  visit_slot(*chunk, slot, false, visit);
}

void ChunkEngine::for_each_held_piece(const std::function<void(const OwnedPiece&)>& visit) const {
  visit_pieces(true, visit);
}

at::Tensor ChunkEngine::gradient(const nn::Parameter& parameter) const {
  const auto [chunk, slot] = places_.at(&parameter);
  const Slot& place = chunk->plan.slots[slot];
  return chunk->gradient.narrow(0, place.offset, place.numel).view(parameter.local_shape());
}

std::vector<ChunkEngine::ChunkSize> ChunkEngine::chunk_sizes() const {
  std::vector<ChunkSize> sizes;
  for (const auto& chunk : chunks_) {
    sizes.push_back({chunk->plan.numel, chunk->part.size(), chunk->plan.trainable});
  }
  return sizes;
}

ChunkEngine::StateBytes ChunkEngine::state_bytes() const {
  StateBytes bytes;
  for (const auto& chunk : chunks_) {
    bytes.parameters += static_cast<int64_t>(chunk->working.nbytes());
    if (!chunk->plan.trainable) continue;
    bytes.gradients += static_cast<int64_t>(chunk->gradient.nbytes());
    if (options_.master != options_.working) {
      bytes.optimizer += static_cast<int64_t>(chunk->master.nbytes());
    }
    for (const at::Tensor& state : chunk->state) {
      bytes.optimizer += static_cast<int64_t>(state.nbytes());
    }
  }
  return bytes;
}

}  // namespace colossal::memory
