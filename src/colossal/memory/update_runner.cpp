#include "colossal/memory/update_runner.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/memory/tiered_update.h"

namespace colossal::memory {

UpdateRunner::UpdateRunner(const nn::ParameterList& parameters, std::vector<Chunk*> trained,
                           const ParallelContext& context, const optim::ParameterGroups* optimizers,
                           at::ScalarType master)
    : parameters_(parameters),
      trained_(std::move(trained)),
      context_(context),
      optimizers_(optimizers) {
  std::vector<Chunk*> with_sums, with_matrices;
  for (Chunk* const chunk : trained_) {
    if (chunk->plan.optimizer->as_tensor_optimizer()) with_sums.push_back(chunk);
    if (chunk->plan.optimizer->as_matrix_optimizer()) with_matrices.push_back(chunk);
  }
  const auto optimizer_of = [&](const nn::Parameter& parameter) {
    return parameter.trainable ? optimizers->rule(parameter).optimizer : nullptr;
  };
  const bool any_sums = std::ranges::any_of(parameters_, [&](const nn::ParameterHandle& parameter) {
    const optim::Optimizer* optimizer = optimizer_of(*parameter);
    return optimizer && optimizer->as_tensor_optimizer();
  });
  if (any_sums) {  // on any rank: all take part in the sums
    tensor_updates_ = std::make_unique<TensorUpdates>(parameters_, optimizer_of,
                                                      std::move(with_sums), context_, master);
  }
  if (!with_matrices.empty()) {
    matrix_updates_ = std::make_unique<MatrixUpdates>(std::move(with_matrices), context_, master);
  }
}

void UpdateRunner::update(const Update& update, const std::vector<bool>& used_anywhere) {
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
                           .update = ++counts_[&parameter]};
  }
  const auto scalars_of =
      [&](const nn::Parameter& parameter) -> std::optional<optim::UpdateScalars> {
    const auto found = scalars.find(&parameter);
    return found == scalars.end() ? std::nullopt : std::optional(found->second);
  };
  if (tensor_updates_) tensor_updates_->sum(scalars_of);
  if (matrix_updates_) matrix_updates_->transform(scalars_of);
  run(scalars_of);
  // Without scalars there is nothing to sum: this releases the sums, which would otherwise take
  // memory until the next update.
  if (tensor_updates_) {
    tensor_updates_->sum(
        [](const nn::Parameter&) -> std::optional<optim::UpdateScalars> { return std::nullopt; });
  }
}

void UpdateRunner::run(const TensorUpdates::ScalarsOf& scalars_of) {
  // In order of use, so that the weights which the next forward pass needs first are gathered
  // first.
  const auto update = [&](Chunk& chunk, TieredUpdate& span) {
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
  run_passes(trained_, UpdatePhase::update, update, [&](Chunk& chunk) {
    if (!chunk.gathers_updates()) return;
    chunk.begin_weight_gather();
    if (gathering) gathering->finish_weight_gather();
    gathering = &chunk;
  });
  if (gathering) gathering->finish_weight_gather();
}

std::vector<int64_t> UpdateRunner::counts() const {
  std::vector<int64_t> counts;
  for (const nn::ParameterHandle& parameter : parameters_) {
    if (!parameter->begins_tensor()) continue;
    const auto found = counts_.find(&*parameter);
    counts.push_back(found == counts_.end() ? 0 : found->second);
  }
  return counts;
}

void UpdateRunner::set_counts(const std::vector<int64_t>& counts) {
  size_t tensors = 0;
  for (const nn::ParameterHandle& parameter : parameters_) {
    if (parameter->begins_tensor()) ++tensors;
    COLOSSAL_CHECK(tensors <= counts.size(), "{} counts, parameter {} is of tensor {}",
                   counts.size(), parameter->name, tensors);
    counts_[&*parameter] = counts[tensors - 1];
  }
  COLOSSAL_CHECK(tensors == counts.size(), "{} counts, {} tensors", counts.size(), tensors);
}

int64_t UpdateRunner::whole_state_bytes() const {
  return (tensor_updates_ ? tensor_updates_->whole_state_bytes() : 0) +
         (matrix_updates_ ? matrix_updates_->whole_state_bytes() : 0);
}

}  // namespace colossal::memory
