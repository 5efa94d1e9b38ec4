// An optimizer update of a span of a chunk. It runs on the device if the optimizer state is stored
// there, else on the host, for state on the host or on NVMe (J. Ren et al. 2021, "ZeRO-Offload").
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "colossal/memory/chunk.h"
#include "colossal/optim/optimizer.h"

namespace colossal::memory {

class TieredUpdate {
 public:
  // Begins to transfer the tensors that the update reads.
  TieredUpdate(Chunk& chunk, Range elements);

  // Waits for the tensors, updates, and begins to transfer the changes back. scalars_of: the
  // scalars for a slot; nullopt: the slot is not updated.
  using ScalarsOf = std::function<std::optional<optim::UpdateScalars>(size_t slot)>;
  void run(const optim::Optimizer& optimizer, const ScalarsOf& scalars_of);

  // Waits until the changes are transferred.
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

// Returns the ranges of a chunk to update one after the other: all held elements as one range if
// nothing is offloaded, else spans. There is at least one range, which is empty if this rank holds
// nothing, because the gather of updates follows the last range.
std::vector<Range> update_spans(const Chunk& chunk);

}  // namespace colossal::memory
