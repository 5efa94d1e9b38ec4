#include "colossal/run/strategy_choice.h"

#include <fmt/format.h>

#include "colossal/base/log.h"
#include "colossal/base/progress.h"
#include "colossal/plan/measure_cluster.h"

namespace colossal {

plan::ClusterSpecification cluster_of(const RunConfig& config) {
  if (!config.parallel.cluster.empty()) return plan::read_cluster(config.parallel.cluster);
  log::info(
      "measuring this machine; `colossal check --cluster=FILE` does so once, and "
      "parallel.cluster = \"FILE\" uses the result");
  return plan::measure_cluster();
}

plan::StrategySearch search_strategies(const GivenConfig& given, const Machine& machine,
                                       const plan::ClusterSpecification& cluster,
                                       const std::function<Job(const Job&)>& dry_run_job) {
  ProgressLine line("searching layouts", 0, 0, "layouts");
  plan::StrategySearch search =
      plan::search_strategies(given.config, given.keys, machine, cluster, dry_run_job,
                              [&](int64_t done) { line.update(done); });
  line.finish();
  return search;
}

std::vector<std::string> flags_of(const plan::StrategySearch& search) {
  std::vector<std::string> flags;
  for (const auto& [key, value] : search.choices.front().settings) {
    flags.push_back(fmt::format("--{}={}", key, value));
  }
  flags.emplace_back("--parallel.strategy=manual");
  return flags;
}

}  // namespace colossal
