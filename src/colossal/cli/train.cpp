#include <ATen/Parallel.h>

#include <memory>
#include <optional>
#include <set>

#include "colossal/base/error.h"
#include "colossal/base/log.h"
#include "colossal/base/machine.h"
#include "colossal/booster/job.h"
#include "colossal/booster/trainer.h"
#include "colossal/cli/command.h"
#include "colossal/cluster/launch_environment.h"
#include "colossal/cluster/local_launcher.h"
#include "colossal/cluster/stop_request.h"
#include "colossal/comm/world.h"
#include "colossal/ops/cpu_features.h"

namespace colossal::cli {
namespace {

struct TrainArguments {
  std::string file;
  std::optional<int> ranks;
  std::vector<std::string> flags;  // --section.key=value
};

struct GivenConfig {
  RunConfig config;
  std::set<std::string> keys;  // that the file or a flag gave
};

GivenConfig read_config(const TrainArguments& arguments) {
  GivenConfig given;
  ConfigSchema schema;
  describe(schema, given.config);
  schema.read_file(arguments.file);
  for (const std::string& flag : arguments.flags) schema.set_flag(flag);
  for (const ConfigSchema::Value& value : schema.values()) {
    if (value.source != ConfigSource::by_default) given.keys.insert(value.key);
  }
  return given;
}

// As comm::connect chooses: a GPU for each rank of this host, or the CPU for all.
bool computes_bf16(const RunConfig& config, int local_ranks) {
  const std::string& backend = config.parallel.backend;
  const bool on_gpus = (backend == "auto" || backend == "nccl") && comm::num_gpus() >= local_ranks;
  return on_gpus || ops::has_bf16_instructions();
}

Job resolve(const GivenConfig& given, int ranks, int local_ranks) {
  Job job =
      resolve_job(given.config, {.ranks = ranks,
                                 .local_ranks = local_ranks,
                                 .cores = machine::available_cores(),
                                 .bf16_instructions = computes_bf16(given.config, local_ranks)});
  job.given_keys = given.keys;
  return job;
}

// One rank of the job, to its end. Returns the exit code.
int train_rank(const Job& job, comm::World& world) {
  at::set_num_threads(job.threads);
  cluster::install_stop_handlers();
  try {
    const TrainingSummary summary = train(job, world, {.stop_requested = cluster::stop_requested});
    if (!summary.saved) {
      throw IoError("the last checkpoint was not saved; see above for the reason");
    }
    return 0;
  } catch (const std::exception& error) {
    world.abort(error.what());
    throw;
  }
}

int train_launched(const TrainArguments& arguments, const cluster::LaunchEnvironment& launch) {
  const comm::Rendezvous& rendezvous = launch.rendezvous;
  log::set_rank_prefix(rendezvous.rank, rendezvous.size);
  if (arguments.ranks && *arguments.ranks != rendezvous.size) {
    throw ConfigError(fmt::format(
        "--ranks={}, but {} has started this process as one of {} ranks; leave --ranks out",
        *arguments.ranks, launch.launcher, rendezvous.size));
  }
  const Job job = resolve(read_config(arguments), rendezvous.size, launch.local_size);
  const auto world =
      comm::connect(rendezvous, job.config.parallel.backend, job.config.parallel.timeout);
  return train_rank(job, *world);
}

// Every rank that fails tells its launcher why, which then names it once.
int train_launched_and_report(const TrainArguments& arguments,
                              const cluster::LaunchEnvironment& launch) {
  const auto told = [&](const std::exception& error, int exit_code) {
    if (!cluster::send_error(launch, error.what())) log::error("{}", error.what());
    return exit_code;
  };
  try {
    return train_launched(arguments, launch);
  } catch (const ConfigError& error) {
    return told(error, kBadUsage);
  } catch (const CommError& error) {
    return told(error, kRankDied);
  } catch (const Error& error) {
    return told(error, kFailed);
  }
}

int train_here(const TrainArguments& arguments, int ranks) {
  const GivenConfig given = read_config(arguments);
  const Job job = resolve(given, ranks, ranks);  // refuses before any rank starts
  if (ranks == 1) {
    return train_rank(job, *comm::single_world(comm::device_alone(job.config.parallel.backend)));
  }
  std::vector<std::string> command{"train", arguments.file};
  command.insert(command.end(), arguments.flags.begin(), arguments.flags.end());
  return cluster::run_local_ranks(
      {.program = "/proc/self/exe", .arguments = command, .num_ranks = ranks});
}

int train(const TrainArguments& arguments) {
  if (const auto launch = cluster::read_launch_environment()) {
    return train_launched_and_report(arguments, *launch);
  }
  const int ranks = arguments.ranks.value_or(1);
  if (ranks < 1) throw ConfigError(fmt::format("--ranks={}: at least 1 rank", ranks));
  return train_here(arguments, ranks);
}

std::string config_help() {
  RunConfig config;
  ConfigSchema schema;
  describe(schema, config);
  return "Keys of RUN.toml, each also a flag --section.key=value:\n\n" + schema.help();
}

}  // namespace

void add_train(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* command = app.add_subcommand("train", "Train a model as a run.toml says");
  command->add_option("run.toml", arguments->file, "the run; two lines (model, data) are enough")
      ->required();
  command->add_option(
      "--ranks", arguments->ranks,
      "start this many ranks here; left out under srun, mpirun, torchrun, colossal run");
  command->allow_extras();
  command->footer(config_help);
  command->callback([arguments, command, &exit_code] {
    arguments->flags = command->remaining();
    exit_code = train(*arguments);
  });
}

}  // namespace colossal::cli
