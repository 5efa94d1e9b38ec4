#include "colossal/plan/plan.h"

#include <filesystem>
#include <memory>
#include <optional>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/cli/command.h"
#include "colossal/cli/key_flags.h"
#include "colossal/cli/run_arguments.h"
#include "colossal/cli/strategy_choice.h"
#include "colossal/io/file.h"
#include "colossal/plan/fit_memory.h"
#include "colossal/plan/plan_page.h"
#include "colossal/plan/plan_text.h"
#include "colossal/training/training_data.h"

namespace colossal::cli {
namespace {

struct PlanArguments {
  RunArguments run;
  std::string cluster;      // a file; empty: the key parallel.cluster
  bool classifies = false;  // whether to plan colossal tune classify, not colossal train
  bool json = false;
  std::string page;  // a file; empty: none
};

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

void print_plan(const PlanArguments& arguments) {
  const int ranks = arguments.run.num_ranks();
  GivenConfig given = read_config(arguments.run);
  given.config.model.pretrains = !arguments.classifies;
  if (!arguments.cluster.empty()) given.config.parallel.cluster = arguments.cluster;
  std::optional<plan::ClusterSpecification> cluster;
  if (!given.config.parallel.cluster.empty() || is_undecided(given.config)) {
    cluster = cluster_of(given.config);
  }
  const Machine machine = machine_of_plan(given, ranks, cluster);
  std::optional<plan::StrategySearch> search;
  std::string layouts;  // those that were compared
  if (is_undecided(given.config)) {
    search = search_strategies(given, machine, *cluster, [](const Job& job) { return job; });
    given.config = search->choices.front().config;
    for (const auto& [key, value] : search->choices.front().settings) given.keys.insert(key);
    layouts = plan::describe(*search) + "\n\n";
    if (!arguments.json) fmt::print("{}", layouts);
  }
  Job job = resolve_job(given.config, machine, given.keys);
  if (arguments.classifies && !job.model.transformer.patches) {
    throw ConfigError(
        fmt::format("--classify: the model, of family {}, reads no images; leave it out",
                    job.model.facts.family));
  }
  for (const std::string& warning : job.warnings) log::warn("{}", warning);
  check_tokenizer(job);
  job = plan::fit_memory(job);
  const plan::Plan made = plan::make_plan(job, cluster ? &*cluster : nullptr);
  const std::vector<plan::RecomputeCost> costs =
      plan::compare_recompute(job, made.rank_with_largest_peak());
  const std::string text = plan::describe(job, made, costs);
  nlohmann::ordered_json json = plan::to_json(job, made, costs);
  if (search) json["search"] = plan::to_json(*search);
  if (!arguments.page.empty()) {
    io::write_file_atomically(arguments.page, plan::page_of(job, json, layouts + text));
  }
  fmt::print("{}", arguments.json ? json.dump(2) + "\n" : text);
}

}  // namespace

void add_plan(CLI::App& app, int&) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command = app.add_subcommand(
      "plan",
      "Show what a run will cost before it starts: how much each rank sends, stores and computes "
      "per step, and when the ranks of a pipeline wait. This is a dry run: it reads no data, "
      "allocates no tensors and sends nothing");
  add_run_arguments(*command, arguments->run, "Plan for this many ranks in total [1]");
  command
      ->add_option("--cluster", arguments->cluster,
                   "Also predict the time of a step on the machines of this file, which colossal "
                   "check --cluster=FILE writes; the same as --parallel.cluster=FILE")
      ->type_name("FILE");
  command->add_flag("--classify", arguments->classifies,
                    "Of a model that reads images: plan `colossal tune classify`, in place of "
                    "`colossal train`, which reconstructs masked images");
  command->add_flag("--json", arguments->json,
                    "Print one JSON object, with the key names of metrics.jsonl");
  command
      ->add_option("--page", arguments->page,
                   "Also write the plan and the timeline of the pipeline schedule to this file, as "
                   "an HTML page")
      ->type_name("FILE");
  command->callback([arguments, command] {
    arguments->run.flags = key_flags<RunConfig>(*command);
    print_plan(*arguments);
  });
}

}  // namespace colossal::cli
