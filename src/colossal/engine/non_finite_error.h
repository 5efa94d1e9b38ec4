// What an update throws if a loss or gradient is not finite.
#pragma once

#include <cstdint>
#include <string>

#include "colossal/base/error.h"
#include "colossal/memory/chunk_engine.h"
#include "colossal/mesh/parallel_context.h"

namespace colossal {

// Thrown on all ranks if a loss or gradient is not finite on any rank. No rank has updated: weights
// and optimizer state are those before the step.
class NonFiniteError : public Error {
 public:
  // what: "the loss", "the gradient of " and the name of a parameter, or "a sum of gradients" if
  // each gradient is finite.
  NonFiniteError(int64_t step, const std::string& what);
  int64_t step;  // number of the failed step, from 1
};

// Throws NonFiniteError with the same message on all ranks. Each rank reports its first bad tensor,
// and all name that of the first rank that has one. loss_is_finite: this rank's. Collective.
[[noreturn]] void throw_non_finite(int64_t step, bool loss_is_finite,
                                   const memory::ChunkEngine& chunks,
                                   const ParallelContext& context);

}  // namespace colossal
