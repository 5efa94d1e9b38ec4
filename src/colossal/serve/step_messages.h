// Messages from the first of the ranks that hold a model to the other ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "colossal/mesh/parallel_context.h"

namespace colossal::serve {

struct StepMessage {
  enum class Kind : int64_t {
    begin,  // an engine's pages: how many, of how many tokens, whether in int8, whether each token
            // attends alone; and for how many milliseconds the first rank may ask for no sign of
            // life (heartbeat.h), 0: it never asks
    step,   // a StepPlan
    adapter,       // to load: its number, and a number for each byte of its folder's path
    drop_adapter,  // its number
    nothing,       // there is nothing to do for now
    end            // the engine ends
  };
  Kind kind = Kind::nothing;
  std::vector<int64_t> numbers{};
};

// Whether this rank is the first of the pp x tp ranks that hold a model together.
bool leads(const ParallelContext& ranks);

// Called on the first rank: sends a message to all other ranks, along the pipeline from the first
// rank and, within each stage, along tp. Does not wait for the next stage if the message is a step,
// because that stage may still compute the previous step. Law: 16 bytes and 8 per number, to each
// other rank.
void tell(const StepMessage& message, const ParallelContext& ranks);
// Called on the other ranks: waits for the next message, forwards it and returns it.
StepMessage hear(const ParallelContext& ranks);

}  // namespace colossal::serve
