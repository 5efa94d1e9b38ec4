// An optimizer update of a range of a chunk's elements. It runs on the device if the optimizer
// state is stored there; if the state is on the host or on NVMe, it runs on the host's CPU (J. Ren
// et al. 2021, "ZeRO-Offload").
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "colossal/memory/chunk.h"
#include "colossal/optim/optimizer.h"

namespace colossal::memory {

class TieredUpdate {
 public:
  // Begins to transfer the masters, gradients and optimizer state to where the update runs.
  // elements: one of update_spans(). `chunk` must outlive this.
  TieredUpdate(Chunk& chunk, Range elements);

  // Waits for these transfers, updates, and begins to transfer the results back. scalars_of:
  // returns the scalars for a slot; nullopt: the slot is not updated. Throws IoError.
  using ScalarsOf = std::function<std::optional<optim::UpdateScalars>(size_t slot)>;
  void run(const optim::Optimizer& optimizer, const ScalarsOf& scalars_of);

  // Waits until the results are transferred. Throws IoError.
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

// Returns the ranges of Chunk::held to update one after the other: one range if nothing of the
// chunk is offloaded, else its spans (kSpan). Always returns at least one range, because the caller
// begins the gather of updated weights after the last one; the range is empty if this rank holds
// nothing.
std::vector<Range> update_spans(const Chunk& chunk);

}  // namespace colossal::memory
