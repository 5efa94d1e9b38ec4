// Messages of the inference engine between the ranks that hold a model: the first rank, which has
// the engine, tells the other ranks what to compute. Used by EngineCore on the first rank, and by
// follow() (forward_pass.h) on the other ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/mesh/parallel_context.h"

namespace colossal::serve {

struct StepMessage {
  // What a rank is told to do, and what `numbers` then contains.
  enum class Kind : int64_t {
    // The engine starts; always the first message. numbers: the number of pages; tokens per page;
    // whether keys and values are int8; EngineOptions::batch_invariant;
    // HeartbeatOptions::patience() in milliseconds (0: there are no heartbeats).
    begin,
    // Run a forward pass. numbers: the StepPlan, as to_numbers() returns it.
    step,
    // Load an adapter. numbers: AdapterWeights::number, then one number per byte of the folder's
    // path.
    adapter,
    drop_adapter,  // Forget an adapter. numbers: AdapterWeights::number.
    nothing,       // Run an empty pass (ForwardPass::start()): there is no work for now.
    end            // The engine ends.
  };
  Kind kind = Kind::nothing;
  std::vector<int64_t> numbers{};  // see Kind; empty for kinds without content
};

// Whether this rank is the first of the pp x tp ranks that hold a model, i.e. has coordinate 0
// along both axes.
bool leads(const ParallelContext& ranks);

// Call on the first rank. Sends a message to all other ranks that hold the model. The message
// travels from rank to rank along pp and, for each coordinate along pp, from the first rank along
// tp to the others. For a message of kind `step`, does not wait until the next rank along pp has
// received it, because that rank may still compute an earlier step. Law, summed over the R ranks
// that hold the model: (R - 1) * (16 bytes + 8 bytes per number). Each rank books the copies that
// it sends, in tell() or in hear().
void tell(const StepMessage& message, const ParallelContext& ranks);
// Waits for the next message of tell(), passes it on to further ranks, and returns it. Call on all
// ranks that hold the model, except the first.
StepMessage hear(const ParallelContext& ranks);

}  // namespace colossal::serve
