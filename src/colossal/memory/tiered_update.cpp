#include "colossal/memory/tiered_update.h"

#include <ATen/core/grad_mode.h>

#include <deque>
#include <utility>

#include "colossal/ops/optimizer_kernels.h"

namespace colossal::memory {
namespace {

using Access = TierTransfer::Access;
using Counted = TierTransfer::Counted;

// Most spans that are read ahead, and most that are being written.
constexpr size_t kUpdatesUnderWay = 3;

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

TieredUpdate::TieredUpdate(Chunk& chunk, Range elements, UpdatePhase phase)
    : chunk_(chunk),
      elements_(elements),
      phase_(phase),
      place_(place_of_update(chunk)),
      master_(chunk.master(), elements, place_,
              phase == UpdatePhase::update ? Access::update : Access::read, Counted::yes),
      gradient_(chunk.gradients(), elements, place_,
                phase == UpdatePhase::prepare ? Access::update : Access::read, Counted::yes) {
  for (const auto& state : chunk.state()) {
    state_.emplace_back(*state, elements, place_, Access::update, Counted::yes);
  }
}

void TieredUpdate::run(const ScalarsOf& scalars_of, bool merges_slots, const Visit& visit) {
  const at::NoGradGuard no_grad;
  if (chunk_.has_own_masters() && phase_ == UpdatePhase::update) {
    working_.emplace(chunk_.updated_weights(), elements_, place_, Access::write, Counted::yes);
  }
  // Adjacent parameters with equal scalars are updated by one call of the kernel.
  Range range{elements_.begin, elements_.begin};
  size_t first = 0;
  std::optional<optim::UpdateScalars> scalars;
  for (size_t slot = 0; slot < chunk_.slots.size(); ++slot) {
    const Range here = intersect(chunk_.range_of(slot), elements_);
    if (here.empty()) continue;
    const std::optional<optim::UpdateScalars> next = scalars_of(slot);
    if (next != scalars || !merges_slots) {
      visit_slots(range, first, scalars, visit);
      range.begin = range.end = here.begin;
      first = slot;
      scalars = next;
    }
    range.end = here.end;
  }
  visit_slots(range, first, scalars, visit);
  master_.leave();
  gradient_.leave();
  if (working_) working_->leave();
  for (TierTransfer& state : state_) state.leave();
}

void TieredUpdate::visit_slots(Range range, size_t slot,
                               const std::optional<optim::UpdateScalars>& scalars,
                               const Visit& visit) {
  if (range.empty()) return;
  const auto view = [&](TierTransfer& transfer) {
    return transfer.tensor().narrow(0, range.begin - elements_.begin, range.size());
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
  visit(piece, *scalars, slot, range.begin);
}

void TieredUpdate::finish() {
  master_.finish();
  gradient_.finish();
  if (working_) working_->finish();
  for (TierTransfer& state : state_) state.finish();
}

void run_passes(const std::vector<Chunk*>& chunks, UpdatePhase phase,
                const std::function<void(Chunk&, TieredUpdate&)>& run,
                const std::function<void(Chunk&)>& ended) {
  struct Part {
    Chunk* chunk;
    Range elements;
    bool last;  // of its chunk
  };
  std::vector<Part> parts;
  for (Chunk* chunk : chunks) {
    for (const Range& span : update_spans(*chunk)) {
      parts.push_back({chunk, span, span.end == chunk->held.end});
    }
  }
  std::deque<TieredUpdate> reading, writing;  // the oldest first
  const auto finish_oldest_write = [&] {
    writing.front().finish();
    writing.pop_front();
  };
  for (size_t next = 0, i = 0; i < parts.size(); ++i) {
    for (; next < parts.size() && next < i + kUpdatesUnderWay; ++next) {
      reading.emplace_back(*parts[next].chunk, parts[next].elements, phase);
    }
    run(*parts[i].chunk, reading.front());
    writing.push_back(std::move(reading.front()));
    reading.pop_front();
    while (writing.size() > kUpdatesUnderWay) finish_oldest_write();
    if (parts[i].last) ended(*parts[i].chunk);
  }
  while (!writing.empty()) finish_oldest_write();
}

}  // namespace colossal::memory
