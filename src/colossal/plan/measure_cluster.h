// Measures how fast this machine computes and communicates, for predictions of the time of a step
// (step_time.h).
#pragma once

#include <c10/core/ScalarType.h>

#include <map>
#include <optional>

#include "colossal/comm/link_rate.h"
#include "colossal/plan/cluster_specification.h"

namespace colossal::plan {

// Rates that are measured already, so that a file has the figures that were shown.
struct KnownRates {
  // FLOP/s of large products on all cores of the CPU at once, by type; of a type that is missing,
  // measure_cluster() measures it.
  std::map<at::ScalarType, double> products = {};
  std::optional<comm::LinkRate> link = std::nullopt;  // over shared memory
  std::optional<double> nvme_bandwidth = std::nullopt;
};

// Measures the first GPU, or all cores of the CPU at once if this process can use no GPU. Each rate
// is that of the fastest of many repetitions, because other programs slow down some of them. Takes
// about 5 seconds. Rates between ranks are measured on the CPU only: with GPUs the result has no
// links.latency and links.bandwidth. The result has no rates of a network, and no rate of NVMe
// unless `known` has it. Calls memory::install_allocators(): unless the process has called that
// function already, call measure_cluster() before other threads allocate memory.
ClusterSpecification measure_cluster(const KnownRates& known = {});

}  // namespace colossal::plan
