// Chooses the layout of a run with parallel.strategy = "auto", for `train`, `tune` and `plan`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "colossal/plan/cluster_specification.h"
#include "colossal/plan/strategy_search.h"
#include "colossal/run/given_run.h"

namespace colossal {

// Whether the layout has yet to be chosen.
inline bool is_undecided(const RunConfig& config) {
  return config.parallel.strategy == "auto";
}

// Returns the machines of the file parallel.cluster; measures this machine if the key is empty, and
// logs that it does. Throws ConfigError if the file cannot be read or is wrong.
plan::ClusterSpecification cluster_of(const RunConfig& config);

// Searches the layouts of a run (plan::search_strategies()) on the machines of cluster_of(), with a
// progress line. dry_run_job: see there.
plan::StrategySearch search_strategies(const GivenConfig& given, const Machine& machine,
                                       const plan::ClusterSpecification& cluster,
                                       const std::function<Job(const Job&)>& dry_run_job);

// Returns the flags that give a run the fastest layout of a search: "--parallel.pp=2", ...,
// "--parallel.strategy=manual".
std::vector<std::string> flags_of(const plan::StrategySearch& search);

}  // namespace colossal
