#include "colossal/engine/non_finite_error.h"

#include <fmt/format.h>

namespace colossal {

NonFiniteError::NonFiniteError(int64_t step, const std::string& what)
    : Error(fmt::format("step {}: {} is not finite; no rank has updated its weights", step, what)),
      step(step) {}

void throw_non_finite(int64_t step, bool loss_is_finite, const memory::ChunkEngine& chunks,
                      const ParallelContext& context) {
  std::string what = chunks.first_non_finite_gradient();
  if (!what.empty()) what = "the gradient of " + what;
  if (!loss_is_finite) what = "the loss";
  for (const std::string& found :
       comm::gather_bytes(what, context.world_group(), comm::Reason::control)) {
    if (!found.empty()) throw NonFiniteError(step, found);
  }
  throw NonFiniteError(step, "a sum of gradients");
}

}  // namespace colossal
