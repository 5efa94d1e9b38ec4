// The ranks of the job, as Python sees them.
#pragma once

#include <memory>

#include "colossal/comm/world.h"
#include "colossal/mesh/parallel_context.h"

namespace colossal::python {

// The ranks of the job. A process connects with them once.
struct Ranks {
  std::unique_ptr<comm::World> world;
};

// Replicas of a module on all ranks. `ranks` must outlive this.
struct Cluster {
  Cluster(const Ranks& ranks, int zero)
      : context(*ranks.world, Strategy{.dp = ranks.world->size(), .zero = zero}) {}

  ParallelContext context;
};

}  // namespace colossal::python
