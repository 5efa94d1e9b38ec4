// Messages that the first of the ranks that hold a model sends to the other ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/mesh/parallel_context.h"

namespace colossal::serve {

struct StepMessage {
  enum class Kind : int64_t {
    // The engine starts. numbers: the number of pages; tokens per page; whether pages are int8;
    // whether each token attends alone (batch_invariant); after how many milliseconds without a
    // heartbeat the first rank counts as hung (0: it sends no heartbeats).
    begin,
    step,          // numbers: a StepPlan
    adapter,       // load an adapter. numbers: AdapterWeights::number, then the bytes of its path
    drop_adapter,  // numbers: AdapterWeights::number
    nothing,       // no work for now
    end            // the engine ends
  };
  Kind kind = Kind::nothing;
  std::vector<int64_t> numbers{};
};

// Whether this rank is the first of the pp x tp ranks that hold a model.
bool leads(const ParallelContext& ranks);

// Called on the first rank: sends a message to all other ranks, from stage to stage along pp and
// within each stage along tp. Does not wait for the next stage if the message is a step, because
// that stage may still compute the step before. Law: 16 bytes, and 8 per number, to each other
// rank.
void tell(const StepMessage& message, const ParallelContext& ranks);
// Called on the other ranks: waits for the next message, passes it on to the ranks after this one,
// and returns it.
StepMessage hear(const ParallelContext& ranks);

}  // namespace colossal::serve
