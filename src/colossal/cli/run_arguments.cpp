#include "colossal/cli/run_arguments.h"

#include <climits>

#include "colossal/base/cpu_features.h"
#include "colossal/base/error.h"
#include "colossal/base/machine.h"
#include "colossal/cluster/launch_environment.h"
#include "colossal/comm/gpus.h"
#include "colossal/comm/world.h"
#include "colossal/io/hub_cache.h"

namespace colossal::cli {
namespace {

// As comm::connect chooses: a GPU for each rank of this host, or the CPU for all of them.
bool computes_on_gpus(const RunConfig& config, int local_ranks) {
  const int gpus = comm::num_gpus();
  return gpus > 0 && config.parallel.world.computes_on_gpus(gpus >= local_ranks);
}

std::string config_help() {
  RunConfig config;
  ConfigSchema schema;
  describe(schema, config);
  return "Keys of run.toml with their defaults. Each is also a flag --section.key=value, which "
         "overrides the file:\n\n" +
         schema.help();
}

}  // namespace

int RunArguments::num_ranks() const {
  const int given = ranks.value_or(1);
  constexpr int kMostRanks = 1 << 20;
  if (given < 1 || given > kMostRanks) {
    throw ConfigError(fmt::format("--ranks={}: must be from 1 to {}", given, kMostRanks));
  }
  return given;
}

void add_run_arguments(CLI::App& command, RunArguments& arguments, const std::string& ranks_help) {
  command
      .add_option("run.toml", arguments.file,
                  "The TOML file that describes the run; a model and data.train are enough")
      ->required();
  command.add_option("--ranks", arguments.ranks, ranks_help);
  command.allow_extras();
  command.footer(config_help);
}

void add_elastic_arguments(CLI::App& command, RunArguments& arguments) {
  command.add_option(
      "--min-ranks", arguments.min_ranks,
      "Elastic run: if a rank dies or hangs, start again from the newest checkpoint, "
      "if need be on fewer ranks, but at least on this many. `colossal resize` "
      "changes the number of ranks while the run goes on");
  command
      .add_option("--max-restarts", arguments.max_restarts,
                  "With --min-ranks: how often to start again after failures without a new "
                  "checkpoint")
      ->capture_default_str();
}

void find_models(RunConfig& config) {
  config.model.path = io::find_model(config.model.path).string();
  config.adapter.resume_from = io::find_model(config.adapter.resume_from).string();
}

GivenConfig read_config(const RunArguments& arguments) {
  GivenConfig given;
  ConfigSchema schema;
  describe(schema, given.config);
  schema.read_file(arguments.file);
  for (const std::string& flag : arguments.flags) schema.set_flag(flag);
  find_models(given.config);
  given.values = schema.values();
  for (const ConfigSchema::Value& value : given.values) {
    if (value.source != ConfigSource::by_default) given.keys.insert(value.key);
  }
  return given;
}

Machine machine_of(const RunConfig& config, int ranks, int local_ranks, HostMemory memory) {
  const bool on_gpus = computes_on_gpus(config, local_ranks);
  const bool is_limit = memory == HostMemory::is_limit && !on_gpus;
  return {.ranks = ranks,
          .local_ranks = local_ranks,
          .cores = machine::available_cores(),
          .max_threads = cluster::openmp_threads().value_or(INT_MAX),
          .memory_bytes = is_limit ? machine::total_memory_bytes() : 0,
          .bf16_instructions = on_gpus || has_bf16_instructions()};
}

Job resolve(const GivenConfig& given, int ranks, int local_ranks, HostMemory memory) {
  Job job =
      resolve_job(given.config, machine_of(given.config, ranks, local_ranks, memory), given.keys);
  job.command = given.command;
  job.read_values = given.values;
  return job;
}

}  // namespace colossal::cli
