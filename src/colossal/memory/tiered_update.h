// An optimizer's update of a span of a chunk, where its state rests: on the device, or on the
// host, for what rests there or on NVMe (J. Ren et al. 2021, "ZeRO-Offload").
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "colossal/memory/chunk.h"
#include "colossal/optim/optimizer.h"

namespace colossal::memory {

class TieredUpdate {
 public:
  // Begins to bring what the update reads.
  TieredUpdate(Chunk& chunk, Range elements);

  // Waits for it, updates, and begins to take back what changed. scalars_of: of the slot with this
  // index; none: it stays as it is.
  using ScalarsOf = std::function<std::optional<optim::UpdateScalars>(size_t slot)>;
  void run(const optim::Optimizer& optimizer, const ScalarsOf& scalars_of);

  // Waits until the changes are back.
  void finish();

 private:
  void run_slots(const optim::Optimizer& optimizer, Range range,
                 const std::optional<optim::UpdateScalars>& scalars);

  Chunk& chunk_;
  Range elements_;
  Tier place_;
  TierTransfer master_, gradient_;
  std::optional<TierTransfer> working_;
  std::vector<TierTransfer> state_;
};

// Returns the ranges of a chunk that are updated one after the other: all that is held, if nothing
// moves, else spans. There is at least one, which is empty if nothing is held: gathers of updates
// follow the last.
std::vector<Range> update_spans(const Chunk& chunk);

}  // namespace colossal::memory
