#include <fmt/ranges.h>

#include <memory>

#include "colossal/base/error.h"
#include "colossal/base/units.h"
#include "colossal/cli/command.h"
#include "colossal/cli/key_flags.h"
#include "colossal/cli/training_run.h"
#include "colossal/comm/world.h"
#include "colossal/tune/resolve.h"
#include "colossal/tune/rollout/sampling_beside.h"
#include "colossal/tune/tuning_method.h"

namespace colossal::cli {
namespace {

using tune::TuningMethod;

// The keys of run.toml with the method's defaults, and the method's own keys.
struct TuneSchema {
  explicit TuneSchema(const TuningMethod& method) {
    tune::set_defaults(method, run, config);
    tune::describe(schema, method, config);
    describe(schema, run);
  }

  RunConfig run;
  tune::TuneConfig config;
  ConfigSchema schema;
};

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

TrainingRun read_run(const TuningMethod& method, const RunArguments& arguments) {
  TuneSchema keys(method);
  keys.schema.read_file(arguments.file);
  for (const std::string& flag : arguments.flags) keys.schema.set_flag(flag);
  find_models(keys.run);
  tune::find_models(keys.config);
  tune::validate(method, keys.run, keys.config);
  const tune::Tuning tuning{&method, keys.config};
  TrainingRun run{.words = {"tune", method.name()},
                  .arguments = arguments,
                  .given = {},
                  .make_task = tune::make_task(tuning)};
  run.given.command = fmt::format("tune {}", method.name());
  run.given.values = keys.schema.values();
  for (const ConfigSchema::Value& value : run.given.values) {
    if (value.source != ConfigSource::by_default) run.given.keys.insert(value.key);
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
  run.fit_memory = [tuning](const Job& job) {
    const int64_t extra_bytes = tune::extra_bytes_during_updates(tuning, job);
    const Job fitted = fit_beside(extra_bytes, tune::dry_run_job(tuning, job, extra_bytes));
    Job result = job;
    result.recompute = fitted.recompute;
    result.recompute_reason = fitted.recompute_reason;
    result.tiers = fitted.tiers;
    result.tiers_reason = fitted.tiers_reason;
    return result;
  };
  return run;
}

}  // namespace

void add_tune(CLI::App& app, int& exit_code) {
  CLI::App* tune_command =
      app.add_subcommand("tune", "Fine-tune or align a model with one of these methods");
  tune_command->require_subcommand(1);
  for (const TuningMethod* const method : tune::all_methods()) {
    auto arguments = std::make_shared<RunArguments>();
    CLI::App* command = tune_command->add_subcommand(method->name(), method->description());
    add_run_arguments(*command, *arguments,
                      "Start this many ranks on this machine [1]. Leave it out if srun, mpirun, "
                      "torchrun or colossal run starts the ranks");
    add_elastic_arguments(*command, *arguments);
    command->footer([method] {
      const TuneSchema keys(*method);
      return "Keys of run.toml with their defaults for this method. Each is also a flag "
             "--section.key=value, which overrides the file:\n\n" +
             keys.schema.help();
    });
    command->callback([arguments, command, method, &exit_code] {
      arguments->flags = key_flags(*command, TuneSchema(*method).schema);
      exit_code = run_training(
          *arguments, [method](const RunArguments& given) { return read_run(*method, given); });
    });
  }
}

}  // namespace colossal::cli
