#include "colossal/memory/chunk_engine.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include "colossal/base/error.h"
#include "colossal/ops/optimizer_kernels.h"

namespace colossal::memory {
namespace {

nn::ParameterList frozen(nn::ParameterList parameters) {
  for (nn::ParameterHandle& parameter : parameters) parameter->trainable = false;
  return parameters;
}

}  // namespace

ChunkEngine::ChunkEngine(nn::ParameterList parameters, const ParallelContext& context,
                         const ChunkOptions& options, const OrderOfStages& order)
    : ChunkEngine(frozen(std::move(parameters)), context, nullptr, options, order) {}

ChunkEngine::ChunkEngine(nn::ParameterList parameters, const ParallelContext& context,
                         std::shared_ptr<const optim::ParameterGroups> optimizers,
                         const ChunkOptions& options, const OrderOfStages& order)
    : ParameterStore(std::move(parameters), context, std::move(optimizers), options),
      reducer_(std::make_unique<GradientReducer>(trained_chunks(), chunk_memory(),
                                                 options.reduce_once_per_step)),
      fetcher_(std::make_unique<ChunkFetcher>(
          chunks(), context.stage_group(), context.strategy().tp, options.window_bytes,
          /*any_order=*/!options.uses_parameter_handles, order)),
      updates_(std::make_unique<UpdateRunner>(this->parameters(), trained_chunks(), context,
                                              parameter_groups(), options.master)) {
  for (Chunk* const chunk : chunks()) {
    for (size_t slot = 0; slot < chunk->plan.slots.size(); ++slot) {
      nn::Parameter& parameter = *chunk->plan.slots[slot].parameter;
      parameter.residency = this;
      if (!parameter.trainable) continue;
      reducer_->watch(parameter.tensor, *chunk, slot, /*tied=*/false);
      if (parameter.tied) reducer_->watch(parameter.tied_tensor, *chunk, slot, /*tied=*/true);
    }
  }
}

ChunkEngine::~ChunkEngine() {
  // Operations under way must end before their memory is freed. Their errors are dropped: they
  // matter to a step only.
  const auto end = [](const auto& wait) {
    try {
      wait();
    } catch (const std::exception&) {  // of ours, or of the GPU
    }
  };
  for (Chunk* const chunk : chunks()) end([&] { chunk->wait_for_collectives(); });
  end([&] { chunk_memory().gradient_writes.finish(); });
  for (const nn::ParameterHandle& parameter : parameters()) parameter->residency = nullptr;
}

void ChunkEngine::before_use(nn::Parameter& parameter) {
  fetcher_->before_use(place_of(parameter).index);
}

void ChunkEngine::before_use_of(nn::Parameter& parameter, const std::vector<int64_t>& counts) {
  const Place& place = place_of(parameter);
  fetcher_->before_use_of(place.index, place.slot, counts);
}

void ChunkEngine::after_use(nn::Parameter& parameter) {
  fetcher_->after_use(place_of(parameter).index);
}

void ChunkEngine::on_unannounced_pass(std::function<void()> begin) {
  begin_unannounced_ = begin;
  reducer_->on_unannounced_pass(std::move(begin));
}

void ChunkEngine::use_in_node(const at::Tensor& weight) {
  if (fetcher_->any_transient() && !fetcher_->in_pass() && begin_unannounced_) begin_unannounced_();
  fetcher_->use_in_node(chunk_of(weight));
}

void ChunkEngine::begin_step() {
  chunk_memory().pools.reset_peaks();
  reducer_->begin_step();
}

void ChunkEngine::begin_backward(bool last, int stage) {
  begin_backward_weight(last, stage);
  fetcher_->begin_backward(stage);
}

void ChunkEngine::begin_backward_weight(bool last, int stage) {
  reducer_->begin_backward(last, stage);
}

void ChunkEngine::begin_backward_input(int stage, HeldGradients& held) {
  reducer_->hold(&held);
  fetcher_->begin_backward(stage);
}

void ChunkEngine::end_backward_input() {
  reducer_->hold(nullptr);
  fetcher_->end();
}

void ChunkEngine::end_backward() {
  reducer_->end_backward();
  fetcher_->end();
}

std::vector<double> ChunkEngine::used() const {
  std::vector<double> used;
  for (const nn::ParameterHandle& parameter : parameters()) {
    if (!is_here(*parameter)) {
      used.push_back(0);
      continue;
    }
    const Place& place = place_of(*parameter);
    used.push_back(place.chunk->slots[place.slot].written ? 1 : 0);
  }
  return used;
}

std::string ChunkEngine::first_non_finite_gradient() const {
  for (const nn::ParameterHandle& parameter : parameters()) {
    if (!is_here(*parameter)) continue;
    const auto [chunk, slot, index] = place_of(*parameter);
    const Range here = intersect(chunk->range_of(slot), chunk->part);
    if (here.empty() || !chunk->plan.trainable) continue;
    if (!ops::all_finite(chunk->gradients().read(here))) return parameter->name;
  }
  return "";
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
  if (const MatrixUpdates* const matrices = updates_->of_matrices()) {
    for (const MatrixUpdates::OwnedStates& owned : matrices->whole_states(parameter)) {
      for (size_t i = 0; i < owned.whole.size(); ++i) {
        parts.push_back({i, owned.matrix * owned.whole[i].numel(), owned.whole[i], true});
      }
    }
  }
  const TensorUpdates* const tensors = updates_->of_tensors();
  const auto* whole = tensors ? tensors->whole_states(parameter) : nullptr;
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
  for (Chunk* const chunk : chunks()) chunk->wait_for_collectives();
  chunk_memory().gradient_writes.finish();
}

ChunkEngine::StateBytes ChunkEngine::state_bytes(Tier tier) const {
  StateBytes bytes = chunk_bytes(tier);
  if (tier == Tier::device) bytes.optimizer += updates_->whole_state_bytes();
  return bytes;
}

void ChunkEngine::update(const Update& update, const std::vector<bool>& used_anywhere) {
  updates_->update(update, used_anywhere);
  if (!options().uses_parameter_handles) synchronize();
}

int64_t ChunkEngine::update_bytes() const {
  int64_t bytes = 0;
  for (const Chunk* const chunk : chunks()) {
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
