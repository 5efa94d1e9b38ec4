// TieredUpdate: a pass of the optimizer over a range of a chunk's elements, with transfers of what
// is offloaded. The pass runs on the device if the optimizer state is stored there. If the state is
// on the host or on NVMe, it runs on the host's CPU (J. Ren et al. 2021, "ZeRO-Offload").
// run_passes() overlaps the transfers of several TieredUpdates.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "colossal/memory/chunk.h"
#include "colossal/optim/optimizer.h"

namespace colossal::memory {

// What a pass does.
enum class UpdatePhase {
  sum,      // TensorOptimizer::pass(): overwrites states
  prepare,  // MatrixOptimizer::prepare(): overwrites states and gradients
  update    // Optimizer::update(): overwrites masters, states and working weights
};

class TieredUpdate {
 public:
  // Begins to transfer what the pass reads to where it runs. elements: the range to visit, one of
  // those that update_spans(chunk) returns (below). `chunk` must outlive this.
  TieredUpdate(Chunk& chunk, Range elements, UpdatePhase phase);

  // Returns the scalars with which one parameter is updated; `slot` is the parameter's index in
  // Chunk::slots. nullopt: the parameter's masters and state keep their values, and only its
  // working weights are written, from the masters.
  using ScalarsOf = std::function<std::optional<optim::UpdateScalars>(size_t slot)>;
  // Visits a piece. slot: the first one of which the piece has elements; begin: the piece's first
  // element in the chunk.
  using Visit = std::function<void(const optim::Piece& piece, const optim::UpdateScalars& scalars,
                                   size_t slot, int64_t begin)>;
  // Waits for the transfers of the constructor, visits the elements piece by piece, and begins to
  // transfer the results back. A piece lies in one slot or, with `merges_slots`, also in several
  // neighbouring slots that have equal scalars. Throws IoError.
  void run(const ScalarsOf& scalars_of, bool merges_slots, const Visit& visit);

  // Waits until the results are transferred. Throws IoError.
  void finish();

 private:
  // Visits the elements `range`. scalars: what scalars_of() returned for these slots; nullopt: only
  // copies masters to working weights. Does nothing if `range` is empty.
  void visit_slots(Range range, size_t slot, const std::optional<optim::UpdateScalars>& scalars,
                   const Visit& visit);

  Chunk& chunk_;
  Range elements_;
  UpdatePhase phase_;
  Tier place_;  // where the pass runs: device or host
  TierTransfer master_, gradient_;
  std::optional<TierTransfer> working_;  // nullopt if masters are the working weights
  std::vector<TierTransfer> state_;      // by index of Optimizer::state_names()
};

// Returns the ranges of elements of `chunk` to update one after the other: the whole range
// Chunk::held if nothing of the chunk is offloaded, else this range cut into spans of up to
// kSpan elements (memory/stored_tensor.h). Returns at least one range, which is empty if this rank
// holds nothing: the caller begins the gather of updated weights after the last range.
std::vector<Range> update_spans(const Chunk& chunk);

// Visits all elements that this rank updates in `chunks`, span by span, while some spans are being
// read and some are being written.
//   run    called for each span; must call TieredUpdate::run()
//   ended  called after `run` for the last span of a chunk, perhaps before its results are
//   transferred
// Throws IoError.
void run_passes(
    const std::vector<Chunk*>& chunks, UpdatePhase phase,
    const std::function<void(Chunk&, TieredUpdate&)>& run,
    const std::function<void(Chunk&)>& ended = [](Chunk&) {});

}  // namespace colossal::memory
