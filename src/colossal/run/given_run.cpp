#include "colossal/run/given_run.h"

#include <climits>

#include "colossal/base/cpu_features.h"
#include "colossal/base/error.h"
#include "colossal/base/machine.h"
#include "colossal/base/units.h"
#include "colossal/cluster/launch_environment.h"
#include "colossal/comm/gpus.h"
#include "colossal/comm/world.h"
#include "colossal/io/hub_cache.h"
#include "colossal/training/trainer.h"
#include "colossal/tune/resolve.h"
#include "colossal/tune/rollout/sampling_beside.h"

namespace colossal {
namespace {

// As comm::connect chooses: a GPU for each rank of this host, or the CPU for all of them.
bool computes_on_gpus(const RunConfig& config, int local_ranks) {
  const int gpus = comm::num_gpus();
  return gpus > 0 && config.parallel.world.computes_on_gpus(gpus >= local_ranks);
}

void read(ConfigSchema& schema, const KeySources& sources) {
  if (!sources.file.empty()) schema.read_file(sources.file);
  for (const std::string& flag : sources.flags) schema.set_flag(flag);
}

// Replaces names of models and adapters in the Hub's cache by their folders (io::find_model()).
void find_models(RunConfig& config) {
  config.model.path = io::find_model(config.model.path).string();
  config.adapter.resume_from = io::find_model(config.adapter.resume_from).string();
}

void set_values(GivenConfig& given, const ConfigSchema& schema) {
  given.values = schema.values();
  for (const ConfigSchema::Value& value : given.values) {
    if (value.source != ConfigSource::by_default) given.keys.insert(value.key);
  }
}

// Fits the job into its budgets. beside: bytes that were subtracted from them for other tensors;
// the error mentions these.
Job fit_beside(int64_t beside, const Job& job) {
  try {
    return plan::fit_memory(job);
  } catch (const ConfigError& error) {
    if (beside == 0) throw;
    throw ConfigError(
        fmt::format("{}\n  These budgets are what remains after {} reserved memory for frozen "
                    "models, a teacher's logits and sampling during updates",
                    error.what(), format_bytes(beside)));
  }
}

Job fit_tuning(const tune::Tuning& tuning, const Job& job) {
  const int64_t extra_bytes = tune::extra_bytes_during_updates(tuning, job);
  const Job fitted = fit_beside(extra_bytes, tune::dry_run_job(tuning, job, extra_bytes));
  Job result = job;
  result.recompute = fitted.recompute;
  result.recompute_reason = fitted.recompute_reason;
  result.tiers = fitted.tiers;
  result.tiers_reason = fitted.tiers_reason;
  return result;
}

}  // namespace

GivenConfig read_config(const KeySources& sources) {
  GivenConfig given;
  ConfigSchema schema;
  describe(schema, given.config);
  read(schema, sources);
  find_models(given.config);
  set_values(given, schema);
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

GivenRun read_training(const KeySources& sources) {
  GivenRun run{.given = read_config(sources), .make_task = make_pretraining};
  run.given.config.model.pretrains = true;
  return run;
}

TuneSchema::TuneSchema(const tune::TuningMethod& method) {
  tune::set_defaults(method, run, config);
  tune::describe(schema, method, config);
  describe(schema, run);
}

GivenRun read_tuning(const tune::TuningMethod& method, const KeySources& sources) {
  TuneSchema keys(method);
  read(keys.schema, sources);
  find_models(keys.run);
  tune::find_models(keys.config);
  tune::validate(method, keys.run, keys.config);
  const tune::Tuning tuning{&method, keys.config};
  GivenRun run{.given = {}, .make_task = tune::make_task(tuning)};
  run.given.command = fmt::format("tune {}", method.name());
  set_values(run.given, keys.schema);
  for (const ConfigSchema::Value& value : run.given.values) {
    if (value.key.starts_with("tune.") || value.key == "data.packing") {
      run.settings.emplace_back(value.key, value.text);
    }
  }
  tune::resolve(tuning, run.given.keys.contains("train.steps"), keys.run);
  run.given.config = keys.run;
  run.concurrent_work = [tuning](const Job& job) -> std::string {
    const auto device = comm::device_alone(job.config.parallel.world);
    const bool samples = tune::samples_during_updates(tuning, job, device);
    return samples ? "the sampler (tune.overlap_sampling)" : "";
  };
  run.dry_run_job = [tuning](const Job& job) {
    return tune::dry_run_job(tuning, job, tune::extra_bytes_during_updates(tuning, job));
  };
  run.fit_memory = [tuning](const Job& job) { return fit_tuning(tuning, job); };
  return run;
}

}  // namespace colossal
