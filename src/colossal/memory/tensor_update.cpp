#include "colossal/memory/tensor_update.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "colossal/memory/memory_ledger.h"

namespace colossal::memory {
namespace {

// Returns the part of a piece; elements are counted from the piece's beginning.
optim::Piece part_of(const optim::Piece& piece, Range elements) {
  const auto view = [&](const at::Tensor& tensor) {
    return tensor.narrow(0, elements.begin, elements.size());
  };
  optim::Piece part;
  part.master = view(piece.master);
  part.gradient = view(piece.gradient);
  if (piece.working.defined()) part.working = view(piece.working);
  for (const at::Tensor& state : piece.state) part.state.push_back(view(state));
  return part;
}

// Returns the state where the elements of a piece are. They may be on the host if the optimizer's
// state is offloaded.
optim::TensorState on_device(const optim::TensorState& state, at::Device device) {
  optim::TensorState copy{.shape = state.shape};
  for (const at::Tensor& sums : state.sums) copy.sums.push_back(sums.to(device));
  return copy;
}

}  // namespace

TensorUpdates::TensorUpdates(const nn::ParameterList& parameters, const OptimizerOf& optimizer_of,
                             std::vector<Chunk*> chunks, const ParallelContext& context,
                             at::ScalarType master)
    : context_(context), chunks_(std::move(chunks)) {
  for (const nn::ParameterHandle& parameter : parameters) {
    const optim::Optimizer* optimizer = optimizer_of(*parameter);
    const auto* of_tensors = optimizer ? optimizer->as_tensor_optimizer() : nullptr;
    if (!of_tensors) continue;
    if (parameter->begins_tensor()) {
      tensors_.push_back({&*parameter, of_tensors, {optim::matrix_shape(parameter->shape)}});
    }
    tensor_of_[&*parameter] = tensors_.size() - 1;
  }
  const MemoryKindScope scope(MemoryKind::optimizer);
  for (const Chunk* chunk : chunks_) {
    const bool on_host = chunk->tiers().optimizer != Tier::device;
    // In a dry run, tensors on the host are meta tensors, too.
    const bool is_dry = context.device().is_meta();
    const at::Device place = on_host && !is_dry ? at::Device(at::kCPU) : context.device();
    for (const Slot& slot : chunk->plan.slots) {
      const nn::Parameter& parameter = *slot.parameter;
      tensors_[tensor_of_.at(&parameter)].here = true;
      indices_[chunk].emplace_back(parameter.shape, parameter.placement.held, place);
    }
  }
  for (Tensor& tensor : tensors_) {
    if (!tensor.here) continue;
    for (const optim::WholeState& state : tensor.optimizer->whole_states(tensor.state.shape)) {
      tensor.state.whole.push_back(
          at::zeros(state.shape, at::TensorOptions().dtype(master).device(context.device())));
    }
  }
}

void TensorUpdates::for_each_block(const Chunk& chunk, size_t slot, const optim::Piece& piece,
                                   int64_t begin, const VisitBlock& visit) const {
  const optim::TensorState& state =
      tensors_[tensor_of_.at(&*chunk.plan.slots[slot].parameter)].state;
  const at::Device place = piece.master.device();
  const bool is_near = state.sums.empty() || state.sums.front().device() == place;
  const optim::TensorState copy = is_near ? optim::TensorState() : on_device(state, place);
  const bool counts = chunk.plan.placement.replica == 0;
  const Range all{begin, begin + piece.master.numel()};
  const Range counted = intersect(all, chunk.part);
  const Range before{all.begin, counted.empty() ? all.end : counted.begin};
  const Range after{counted.empty() ? all.end : counted.end, all.end};
  const int64_t offset = chunk.plan.slots[slot].offset;
  for (const Range& range : {before, counted, after}) {
    if (range.empty()) continue;
    const bool is_counted = counts && range == counted;
    for (const MatrixBlock& block :
         indices_.at(&chunk)[slot].blocks({range.begin - offset, range.end - offset})) {
      optim::Piece part = part_of(
          piece, {block.elements.begin + offset - begin, block.elements.end + offset - begin});
      part.rows = block.rows;
      part.columns = block.columns;
      part.tensor = is_near ? &state : &copy;
      visit(part, is_counted);
    }
  }
}

void TensorUpdates::run_pass(int pass, const ScalarsOf& scalars_of) {
  const auto has_pass = [&](const Tensor& tensor) {
    return pass < tensor.optimizer->num_passes() && scalars_of(*tensor.parameter).has_value();
  };
  std::vector<int64_t> offsets, sizes;
  int64_t total = 0;
  for (const Tensor& tensor : tensors_) {
    offsets.push_back(total);
    sizes.push_back(has_pass(tensor) ? tensor.optimizer->num_sums(pass, tensor.state.shape) : 0);
    total += sizes.back();
  }
  if (total == 0) return;
  const auto options = at::TensorOptions().dtype(at::kDouble).device(context_.device());
  const at::Tensor sums = at::zeros({total}, options);
  const auto visit = [&](Chunk& chunk, size_t slot, const optim::Piece& piece,
                         const optim::UpdateScalars& scalars, int64_t begin) {
    const size_t index = tensor_of_.at(&*chunk.plan.slots[slot].parameter);
    const optim::TensorOptimizer& optimizer = *tensors_[index].optimizer;
    if (pass >= optimizer.num_passes()) return;
    const at::Tensor place = sums.narrow(0, offsets[index], sizes[index]);
    const bool is_near = place.device() == piece.master.device();
    const at::Tensor here =
        is_near ? place : at::zeros(place.sizes(), piece.master.options().dtype(at::kDouble));
    for_each_block(chunk, slot, piece, begin, [&](const optim::Piece& block, bool counted) {
      optimizer.pass(pass, block, scalars, counted ? here : at::Tensor());
    });
    if (!is_near) place.add_(here.to(place.device()));
  };
  memory::run_passes(chunks_, UpdatePhase::sum, [&](Chunk& chunk, TieredUpdate& span) {
    span.run([&](size_t slot) { return scalars_of(*chunk.plan.slots[slot].parameter); },
             /*merges_slots=*/false,
             [&](const optim::Piece& piece, const optim::UpdateScalars& scalars, size_t slot,
                 int64_t begin) { visit(chunk, slot, piece, scalars, begin); });
  });
  comm::all_reduce(sums, context_.world_group(), comm::Reason::optimizer);
  for (size_t i = 0; i < tensors_.size(); ++i) {
    Tensor& tensor = tensors_[i];
    if (!tensor.here || sizes[i] == 0) continue;
    tensor.state.sums.push_back(sums.narrow(0, offsets[i], sizes[i]));
    tensor.optimizer->end_pass(pass, tensor.state, *scalars_of(*tensor.parameter));
  }
}

void TensorUpdates::sum(const ScalarsOf& scalars_of) {
  const at::NoGradGuard no_grad;
  int passes = 0;
  for (Tensor& tensor : tensors_) {
    tensor.state.sums.clear();
    passes = std::max(passes, tensor.optimizer->num_passes());
  }
  for (int pass = 0; pass < passes; ++pass) run_pass(pass, scalars_of);
}

void TensorUpdates::update(Chunk& chunk, TieredUpdate& span,
                           const TieredUpdate::ScalarsOf& scalars_of) const {
  span.run(scalars_of, /*merges_slots=*/false,
           [&](const optim::Piece& piece, const optim::UpdateScalars& scalars, size_t slot,
               int64_t begin) {
             for_each_block(chunk, slot, piece, begin, [&](const optim::Piece& block, bool) {
               chunk.plan.optimizer->update(block, scalars);
             });
           });
}

const std::vector<at::Tensor>* TensorUpdates::whole_states(const nn::Parameter& parameter) const {
  const auto found = tensor_of_.find(&parameter);
  if (found == tensor_of_.end()) return nullptr;
  const std::vector<at::Tensor>& whole = tensors_[found->second].state.whole;
  return whole.empty() ? nullptr : &whole;
}

int64_t TensorUpdates::whole_state_bytes() const {
  int64_t bytes = 0;
  for (const Tensor& tensor : tensors_) {
    for (const at::Tensor& whole : tensor.state.whole) {
      bytes += static_cast<int64_t>(whole.nbytes());
    }
  }
  return bytes;
}

}  // namespace colossal::memory
