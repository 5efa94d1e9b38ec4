#include "colossal/memory/tiered_update.h"

#include <ATen/core/grad_mode.h>

#include "colossal/ops/optimizer_kernels.h"

namespace colossal::memory {
namespace {

using Access = TierTransfer::Access;
using Counted = TierTransfer::Counted;

Tier place_of_update(const Chunk& chunk) {
  return chunk.tiers().optimizer == Tier::device ? Tier::device : Tier::host;
}

}  // namespace

std::vector<Range> update_spans(const Chunk& chunk) {
  const ChunkTiers& tiers = chunk.tiers();
  const bool nothing_moves = tiers.optimizer == Tier::device && tiers.gradients == Tier::device &&
                             tiers.parameters == Tier::device;
  if (nothing_moves || chunk.held.empty()) return {chunk.held};
  return spans_of(chunk.held, chunk.held.begin);
}

TieredUpdate::TieredUpdate(Chunk& chunk, Range elements)
    : chunk_(chunk),
      elements_(elements),
      place_(place_of_update(chunk)),
      master_(chunk.master(), elements, place_, Access::update, Counted::yes),
      gradient_(chunk.gradients(), elements, place_, Access::read, Counted::yes) {
  for (const auto& state : chunk.state()) {
    state_.emplace_back(*state, elements, place_, Access::update, Counted::yes);
  }
}

void TieredUpdate::run(const optim::Optimizer& optimizer, const ScalarsOf& scalars_of) {
  const at::NoGradGuard no_grad;
  if (chunk_.has_own_masters()) {
    working_.emplace(chunk_.updated_weights(), elements_, place_, Access::write, Counted::yes);
  }
  // Adjacent parameters with equal scalars are updated by one call of the kernel.
  Range range{elements_.begin, elements_.begin};
  std::optional<optim::UpdateScalars> scalars;
  for (size_t slot = 0; slot < chunk_.slots.size(); ++slot) {
    const Range here = intersect(chunk_.range_of(slot), elements_);
    if (here.empty()) continue;
    const std::optional<optim::UpdateScalars> next = scalars_of(slot);
    if (next != scalars) {
      run_slots(optimizer, range, scalars);
      range.begin = range.end = here.begin;
      scalars = next;
    }
    range.end = here.end;
  }
  run_slots(optimizer, range, scalars);
  master_.leave();
  if (working_) working_->leave();
  for (TierTransfer& state : state_) state.leave();
}

void TieredUpdate::run_slots(const optim::Optimizer& optimizer, Range range,
                             const std::optional<optim::UpdateScalars>& scalars) {
  if (range.empty()) return;
  const auto view = [&](TierTransfer& visit) {
    return visit.tensor().narrow(0, range.begin - elements_.begin, range.size());
  };
  if (!scalars) {
    // The parameter is not updated, but its working weights are written: in another tier, their
    // buffer has no contents yet.
    if (working_) ops::convert_copy(view(*working_), view(master_));
    return;
  }
  optim::Piece piece;
  piece.master = view(master_);
  piece.gradient = view(gradient_);
  if (working_) piece.working = view(*working_);
  for (TierTransfer& state : state_) piece.state.push_back(view(state));
  optimizer.update(piece, *scalars);
}

void TieredUpdate::finish() {
  master_.finish();
  if (working_) working_->finish();
  for (TierTransfer& state : state_) state.finish();
}

}  // namespace colossal::memory
