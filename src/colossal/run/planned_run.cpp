#include "colossal/run/planned_run.h"

#include <filesystem>
#include <optional>
#include <utility>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/plan/fit_memory.h"
#include "colossal/plan/plan_text.h"
#include "colossal/run/strategy_choice.h"
#include "colossal/training/training_data.h"

namespace colossal {
namespace {

// Checks the vocabulary as `train` does, if the tokenizer is on this machine.
void check_tokenizer(const Job& job) {
  if (job.tokenizer.empty()) return;  // of a model that reads images
  if (job.tokenizer != "bytes" && !std::filesystem::exists(job.tokenizer)) return;
  check_vocabulary(job, *text::make_tokenizer(job.tokenizer));
}

// Returns the machines of the cluster. Without one, the job may run on machines unlike this one, so
// only budgets in the configuration limit its memory.
Machine machine_of_plan(GivenConfig& given, int ranks,
                        const std::optional<plan::ClusterSpecification>& cluster) {
  if (!cluster) return machine_of(given.config, ranks, ranks, HostMemory::not_a_limit);
  const int local_ranks = static_cast<int>(cluster->local_ranks(ranks));
  Machine machine = machine_of(given.config, ranks, local_ranks, HostMemory::not_a_limit);
  if (cluster->on_gpus()) {
    machine.bf16_instructions = true;
    if (!given.config.memory.device_budget) {
      given.config.memory.device_budget = cluster->hosts.memory;
    }
  } else {
    machine.cores = static_cast<int>(cluster->hosts.cores);
    if (cluster->hosts.memory) machine.memory_bytes = cluster->hosts.memory->bytes;
  }
  return machine;
}

}  // namespace

PlannedRun plan_run(GivenConfig given, int ranks, bool classifies) {
  given.config.model.pretrains = !classifies;
  std::optional<plan::ClusterSpecification> cluster;
  if (!given.config.parallel.cluster.empty() || is_undecided(given.config)) {
    cluster = cluster_of(given.config);
  }
  const Machine machine = machine_of_plan(given, ranks, cluster);
  std::optional<plan::StrategySearch> search;
  if (is_undecided(given.config)) {
    search = search_strategies(given, machine, *cluster, [](const Job& job) { return job; });
    given.config = search->choices.front().config;
    for (const auto& [key, value] : search->choices.front().settings) given.keys.insert(key);
  }
  Job job = resolve_job(given.config, machine, given.keys);
  if (classifies && !job.model.transformer.patches) {
    throw ConfigError(
        fmt::format("--classify: the model, of family {}, reads no images; leave it out",
                    job.model.facts.family));
  }
  for (const std::string& warning : job.warnings) log::warn("{}", warning);
  check_tokenizer(job);
  job = plan::fit_memory(job);
  plan::Plan made = plan::make_plan(job, cluster ? &*cluster : nullptr);
  const std::vector<plan::RecomputeCost> costs =
      plan::compare_recompute(job, made.rank_with_largest_peak());
  std::string text = search ? plan::describe(*search) + "\n\n" : "";
  text += plan::describe(job, made, costs);
  nlohmann::ordered_json json = plan::to_json(job, made, costs);
  if (search) json["search"] = plan::to_json(*search);
  return {std::move(job), std::move(made), std::move(text), std::move(json)};
}

}  // namespace colossal
