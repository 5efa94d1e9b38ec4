// TieredUpdate: the optimizer update of a range of a chunk's elements, with transfers of what is
// offloaded. The update runs on the device if the optimizer state is stored there. If the state is
// on the host or on NVMe, the update runs on the host's CPU (J. Ren et al. 2021, "ZeRO-Offload").
// ChunkEngine::update() overlaps the transfers of several TieredUpdates.
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
  // elements: the range to update, one of those that update_spans(chunk) returns (below). `chunk`
  // must outlive this.
  TieredUpdate(Chunk& chunk, Range elements);

  // Waits for the transfers of the constructor, updates masters, state and working weights, and
  // begins to transfer the results back. scalars_of: returns the learning rate and other scalars
  // with which one parameter is updated; `slot` is the parameter's index in Chunk::slots. If
  // scalars_of() returns nullopt, the parameter's masters and state keep their values, and only its
  // working weights are written, from the masters. Throws IoError.
  using ScalarsOf = std::function<std::optional<optim::UpdateScalars>(size_t slot)>;
  void run(const optim::Optimizer& optimizer, const ScalarsOf& scalars_of);

  // Waits until the results are transferred. Throws IoError.
  void finish();

 private:
  // Updates the elements `range`, which lie in one slot (a parameter's range of the chunk), or in
  // several neighbouring slots that have equal scalars. scalars: what scalars_of() returned for
  // these slots; nullopt: only copies masters to working weights. Does nothing if `range` is empty.
  void run_slots(const optim::Optimizer& optimizer, Range range,
                 const std::optional<optim::UpdateScalars>& scalars);

  Chunk& chunk_;
  Range elements_;
  Tier place_;  // where the update runs: device or host
  TierTransfer master_, gradient_;
  std::optional<TierTransfer> working_;  // nullopt if masters are the working weights
  std::vector<TierTransfer> state_;      // by index of Optimizer::state_names()
};

// Returns the ranges of elements of `chunk` to update one after the other: the whole range
// Chunk::held if nothing of the chunk is offloaded, else this range cut into spans of up to
// kSpan elements (memory/stored_tensor.h). Returns at least one range, which is empty if this rank
// holds nothing: the caller begins the gather of updated weights after the last range.
std::vector<Range> update_spans(const Chunk& chunk);

}  // namespace colossal::memory
