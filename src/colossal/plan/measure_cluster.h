// Measures how fast this machine computes and communicates, for predictions of the time of a step
// (step_time.h).
#pragma once

#include "colossal/plan/cluster_specification.h"

namespace colossal::plan {

// Measures the first GPU, or all cores of the CPU at once if this process can use no GPU. Takes
// about 3 seconds. Rates between ranks are measured on the CPU only: with GPUs the result has no
// links.latency and links.bandwidth. The result has no rates of a network and of NVMe. Calls
// memory::install_allocators(): unless the process has called that function already, call
// measure_cluster() before other threads allocate memory.
ClusterSpecification measure_cluster();

}  // namespace colossal::plan
